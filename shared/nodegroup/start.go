package nodegroup

import (
	"cmp"
	"maps"
	"strconv"
	"time"

	"berth/shared/cluster"
)

// Request is what an update is asked for with.
type Request struct {
	ID     string // of the update: a UUID
	Target cluster.UpdateTarget
	Force  bool
	// ForceProtected has Force stop protected tasks, too.
	ForceProtected bool
	Seed           uint64 // decides in which order nodes are replaced
	// Waits are defaults where zero: 15 minutes for nodes to be Ready and for tasks to leave, 60 seconds from then to the
	// termination (N2, N4), 5 minutes for stopped tasks, 65 minutes for a termination (a life-cycle hook holds it up for
	// an hour), none after upgrade domains, 10 minutes more for what is unhealthy to recover.
	Waits cluster.UpdateWaits
}

// maxUnavailableMost is EKS's quota of nodes updated at once.
const maxUnavailableMost = 100

// Start makes an update of a node group (N1). last is the update before it, nil where there was none: what that one left
// of its surplus is taken back with this one's. It fails with ResourceInUseException while last is in progress, and with
// InvalidParameterException for a target with neither an image nor a launch template of the user's own, which [Resolve] gets
// the image from, or an update configuration that [CheckConfig] refuses.
func Start(g *cluster.NodeGroup, r Request, last *cluster.Update, now time.Time) (*cluster.Update, error) {
	if last != nil && !last.Ended() {
		return nil, cluster.Errorf(cluster.CodeResourceInUse, "Nodegroup %s cannot be updated as it is currently not in Active State", g.Name)
	}
	if r.Target.Image == "" && r.Target.SourceTemplate == "" {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "The update names no image")
	}
	if err := CheckConfig(g.Config); err != nil {
		return nil, err
	}
	u := &cluster.Update{
		Head: cluster.Head{Cluster: g.Cluster, Rev: 1}, NodeGroup: g.Name, ID: r.ID, Status: cluster.UpdateInProgress, Type: cluster.UpdateVersion,
		Params: params(r.Target), CreatedAt: now,
		UpdateSpec: cluster.UpdateSpec{
			Target: r.Target, Config: g.Config, Force: r.Force, ForceProtected: r.ForceProtected, Seed: r.Seed, Waits: waits(r.Waits),
		},
		UpdateProgress: cluster.UpdateProgress{Phase: cluster.PhaseSetup},
	}
	if before, left := toComeBackTo(last); before != left {
		u.Before, u.Left = &before, &left
		if before.Desired != left.Desired {
			u.Zones = maps.Clone(last.Zones)
		}
	}
	if last != nil && last.Target == r.Target {
		u.Previous = last.Template
	}
	return u, nil
}

// toComeBackTo are the sizes that an update was to come back to, as somebody else has set some of them since, and those at which
// it has ended; none of an update that never got there.
func toComeBackTo(u *cluster.Update) (before, left cluster.Sizes) {
	if u == nil || u.Original == nil || u.Final == nil {
		return before, left
	}
	before, left = *u.Original, *u.Final
	before.Min, before.Desired = left.Min, max(before.Desired, left.Min)
	if u.Floor != nil {
		before.Desired = max(before.Desired, *u.Floor)
	}
	if u.UserMax != nil {
		before.Max = min(*u.UserMax, left.Max)
	}
	return before, left
}

// Resolve gives an update the target that its launch template stands for, image included: read when the update is first
// looked at, as whoever asks for it reads no templates (N1). One that has its image, or has ended, stays as it is.
func Resolve(u *cluster.Update, t cluster.UpdateTarget) *cluster.Update {
	if u.Target.Image != "" || u.Ended() {
		return u
	}
	next := clone(u)
	next.Target, next.Params = t, params(t)
	return next
}

// FromTemplate is a target of a launch template version of the user's own, which names the image itself, or leaves it to the
// releaseVersion (EKS user guide, custom launch templates). It fails for good where neither does, with
// InvalidParameterException, or both do, with InvalidRequestException.
func FromTemplate(t cluster.UpdateTarget, lt *cluster.LaunchTemplate) (cluster.UpdateTarget, error) {
	switch {
	case lt.Image == "" && t.ReleaseVersion == "":
		return t, cluster.Errorf(cluster.CodeInvalidParameter, "Version %d of launch template %s names no image, and the request no releaseVersion", lt.Version, lt.ID)
	case lt.Image != "" && (t.ReleaseVersion != "" || t.Version != ""):
		return t, cluster.Errorf(cluster.CodeInvalidRequest, "You cannot specify version or releaseVersion: the launch template names an image")
	}
	t.Image = cmp.Or(lt.Image, t.ReleaseVersion)
	t.SourceTemplate, t.SourceName, t.SourceVersion = lt.ID, lt.Name, strconv.FormatInt(lt.Version, 10)
	return t, nil
}

// SourceOf names the launch template version that a target is to be made from, by its id where that is known.
func SourceOf(t cluster.UpdateTarget) cluster.TemplateRef {
	ref := cluster.TemplateRef{ID: t.SourceTemplate, Version: t.SourceVersion}
	if ref.ID == "" {
		ref.Name = t.SourceName
	}
	return ref
}

// CheckConfig refuses, with InvalidParameterException, an update configuration with both of maxUnavailable and
// maxUnavailablePercentage, with one out of 1 to 100, or with an unknown strategy (N1).
func CheckConfig(c cluster.UpdateConfig) error {
	for _, v := range []int{c.MaxUnavailable, c.MaxUnavailablePercentage} {
		if v < 0 || v > maxUnavailableMost {
			return cluster.Errorf(cluster.CodeInvalidParameter, "maxUnavailable and maxUnavailablePercentage are from 1 to %d, not %d", maxUnavailableMost, v)
		}
	}
	if c.MaxUnavailable > 0 && c.MaxUnavailablePercentage > 0 {
		return cluster.Errorf(cluster.CodeInvalidParameter, "Only one of maxUnavailable and maxUnavailablePercentage may be given")
	}
	switch c.Strategy {
	case "", cluster.UpdateDefault, cluster.UpdateMinimal:
		return nil
	}
	return cluster.Errorf(cluster.CodeInvalidParameter, "updateStrategy is DEFAULT or MINIMAL, not %q", c.Strategy)
}

func params(t cluster.UpdateTarget) (out []cluster.UpdateParam) {
	for _, p := range []cluster.UpdateParam{
		{Type: "Version", Value: t.Version}, {Type: "ReleaseVersion", Value: t.ReleaseVersion},
		{Type: "LaunchTemplateName", Value: t.SourceName}, {Type: "LaunchTemplateVersion", Value: t.SourceVersion},
	} {
		if p.Value != "" {
			out = append(out, p)
		}
	}
	return out
}

func waits(w cluster.UpdateWaits) cluster.UpdateWaits {
	return cluster.UpdateWaits{
		Launch: cmp.Or(w.Launch, 15*time.Minute), Drain: cmp.Or(w.Drain, 15*time.Minute), Stop: cmp.Or(w.Stop, 5*time.Minute),
		Cordon: cmp.Or(w.Cordon, time.Minute), Terminate: cmp.Or(w.Terminate, 65*time.Minute),
		Domain: w.Domain, Health: cmp.Or(w.Health, 10*time.Minute),
	}
}

// parallel is how many of n nodes may be out of service at once: a percentage is rounded down, and one may always be.
func parallel(c cluster.UpdateConfig, n int) int {
	most := cmp.Or(c.MaxUnavailable, n*c.MaxUnavailablePercentage/100)
	return min(max(most, 1), maxUnavailableMost)
}

// TemplateName is the description of the launch template version of an update's target: the same for the same target made
// from the same version (ID:NUMBER), which the group launched when the update began. So an update run again finds the version
// of the one that failed, and none finds one that lacks what its user has changed since.
func TemplateName(u *cluster.Update, from string) string {
	t := u.Target
	if t.SourceTemplate != "" {
		from = "" // it is made from that one
	}
	return "berth/" + u.NodeGroup + "/" + cluster.Digest(t.Image, t.SourceTemplate, t.SourceVersion, from)
}
