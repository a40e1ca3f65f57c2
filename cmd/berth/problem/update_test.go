package problem_test

import (
	"slices"
	"testing"

	"berth/cmd/berth/problem"
	"berth/shared/cluster"
)

// The dry run of an update needs what it updates to, and what shows an update that failed works for
// each.
func TestRemediesOfAFailedUpdate(t *testing.T) {
	const see = "aws eks describe-update --name prod --nodegroup-name workers --update-id u-1"
	for name, c := range map[string]struct {
		update cluster.Update
		want   []string
	}{
		"ToAnImage": {cluster.Update{UpdateSpec: cluster.UpdateSpec{Target: cluster.UpdateTarget{Image: "ami-2"}}},
			[]string{"berth upgrade workers --release-version ami-2 --dry-run --cluster prod", see}},
		"ToARelease": {cluster.Update{UpdateSpec: cluster.UpdateSpec{Force: true, ForceProtected: true,
			Target: cluster.UpdateTarget{Image: "ami-2", ReleaseVersion: "1.0", SourceTemplate: "lt-1", SourceVersion: "3"}}},
			[]string{"berth upgrade workers --release-version 1.0 --force --force-protected --dry-run --cluster prod", see}},
		"ToATemplate": {cluster.Update{UpdateSpec: cluster.UpdateSpec{Force: true,
			Target: cluster.UpdateTarget{Image: "ami-2", SourceTemplate: "lt-1", SourceVersion: "$Latest"}}},
			[]string{"berth upgrade workers --launch-template-version '$Latest' --force --dry-run --cluster prod", see}},
		"ToTheNewestReleaseThatWasNeverRead": {cluster.Update{UpdateSpec: cluster.UpdateSpec{
			Target: cluster.UpdateTarget{AMIType: "AL2023_x86_64_STANDARD"}}}, []string{see}},
		"OfSizes": {cluster.Update{Type: cluster.UpdateConfiguration}, []string{see}},
	} {
		w := newWorld()
		k := w.capacity()
		k.Providers = map[string]*cluster.CapacityProvider{}
		k.NodeGroups["workers"] = &cluster.NodeGroup{Name: "workers", Update: "u-1"}
		c.update.NodeGroup, c.update.ID, c.update.Status = "workers", "u-1", cluster.UpdateFailed
		k.Updates["workers"] = &c.update
		all := w.find(t)
		if len(all) != 1 || all[0].Kind != problem.UpgradeFailed || !slices.Equal(commandsOf(all[0]), c.want) {
			t.Errorf("%s: %+v, want the commands %q", name, all, c.want)
		}
	}
}
