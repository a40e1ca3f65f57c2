package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
)

// A change sets and removes labels and taints. A taint is known by its key and effect. What nodes
// may still have is remembered as removed, until it is there again.
func TestLabelsChange(t *testing.T) {
	gpu := cluster.Taint{Key: "dedicated", Value: "gpu", Effect: cluster.NoSchedule}
	l := cluster.NodeLabels{Labels: map[string]string{"a": "1", "b": "2"}, Taints: []cluster.Taint{gpu}}
	for _, c := range []struct {
		change cluster.LabelsChange
		want   string
	}{
		{cluster.LabelsChange{}, "map[a:1 b:2 berth.taints:dedicated:gpu:NO_SCHEDULE] []"},
		{cluster.LabelsChange{Set: map[string]string{"a": "3"}, Remove: []string{"b", "none"}},
			"map[a:3 berth.taints:dedicated:gpu:NO_SCHEDULE] [b]"},
		{cluster.LabelsChange{Remove: []string{"a"},
			SetTaints: []cluster.Taint{{Key: "dedicated", Value: "db", Effect: cluster.NoSchedule},
				{Key: "dedicated", Effect: cluster.NoExecute}}},
			"map[berth.taints:dedicated::NO_EXECUTE dedicated:db:NO_SCHEDULE] [b a]"},
		{cluster.LabelsChange{Set: map[string]string{"b": "4"}, RemoveTaints: []cluster.Taint{gpu,
			{Key: "dedicated", Effect: cluster.NoExecute}}}, "map[b:4] [a berth.taints]"},
		{cluster.LabelsChange{SetTaints: []cluster.Taint{gpu}},
			"map[b:4 berth.taints:dedicated:gpu:NO_SCHEDULE] [a]"},
	} {
		l = c.change.ApplyTo(l)
		expect(t, "labels", fmt.Sprint(l.Attributes(), l.RemovedLabels), c.want)
		again := c.change.ApplyTo(l)
		expect(t, "labels after the same change", fmt.Sprint(again.Attributes(), again.RemovedLabels), c.want)
	}
	for n := range 100 {
		name := fmt.Sprint("n", n)
		l = (&cluster.LabelsChange{Set: map[string]string{name: "1"}}).ApplyTo(l)
		l = (&cluster.LabelsChange{Remove: []string{name}}).ApplyTo(l)
	}
	if n := len(l.RemovedLabels); n != 50 || l.RemovedLabels[49] != "n99" {
		t.Errorf("%d labels are remembered: %v", n, l.RemovedLabels)
	}
}

func TestTolerations(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "*": "*", "a": "a", " a , b=c:NO_EXECUTE ,": "a,b=c:NO_EXECUTE", "a= *:NO_SCHEDULE": "a=,*:NO_SCHEDULE",
		"example.com/a=1.2_3-4": "example.com/a=1.2_3-4",
	} {
		got, err := cluster.ReadTolerations(text)
		if err != nil || cluster.TolerationsText(got) != want {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
		if again, err := cluster.ReadTolerations(want); err != nil || !slices.Equal(again, got) {
			t.Errorf("%q is not %q again: %+v, %v", want, text, again, err)
		}
	}
	for text, want := range map[string]string{
		"*=a": "cannot be read", "a=b=c": "cannot be read", "=b": "cannot be read", "a:b:NO_EXECUTE": "cannot be read",
		"a:NoSchedule": "cannot be read", "a:PREFER_NO_SCHEDULE": "is not known, expected NO_SCHEDULE or NO_EXECUTE.",
		strings.Repeat("a ", 51): "at most 50", strings.Repeat("a", 64): "cannot be read",
	} {
		_, err := cluster.ReadTolerations(text)
		if cluster.ErrorCode(err) != cluster.CodeInvalidParameter || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
