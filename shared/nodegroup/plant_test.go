package nodegroup_test

import (
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// plant is a bug between an update and its world: in what it reads, what it writes, or what it
// carries out.
type plant struct {
	name   string
	resize func(*cluster.Sizes)
	see    func(*cluster.Update, []nodegroup.Instance)
	row    func(*cluster.Update) *cluster.Update
	act    func(*world, *cluster.Update, []nodegroup.Action) []nodegroup.Action
}

func change(u *cluster.Update, how func(*cluster.Update)) *cluster.Update {
	next := *u
	how(&next)
	return &next
}

func without(kind nodegroup.ActionKind) func(*world, *cluster.Update, []nodegroup.Action) []nodegroup.Action {
	return func(_ *world, _ *cluster.Update, all []nodegroup.Action) (out []nodegroup.Action) {
		for _, a := range all {
			if a.Kind != kind {
				out = append(out, a)
			}
		}
		return out
	}
}

// plants are bugs, each with what the checker says about it.
var plants = []struct {
	plant
	says string
	in   func(*world)
}{
	{plant{name: "MinimumChanged", resize: func(s *cluster.Sizes) { s.Min = s.Desired }}, "the minimum is", nil},
	{plant{name: "OldNodesNotMadeUnschedulable", act: without(nodegroup.Cordon),
		see: func(u *cluster.Update, all []nodegroup.Instance) {
			for k, i := range all {
				if i.Row != nil {
					row := *i.Row
					row.Attributes = map[string]string{cluster.AttributeUnschedulable: u.ID}
					for name, value := range i.Row.Attributes {
						row.Attributes[name] = value
					}
					all[k].Row = &row
				}
			}
		}}, "takes new tasks", nil},
	{plant{name: "AllDrainingAtOnce", act: func(w *world, u *cluster.Update,
		all []nodegroup.Action) []nodegroup.Action {
		for _, v := range w.sorted() {
			if u.Phase == cluster.PhaseUpgrade && v.image == oldImage && v.Row != nil &&
				v.Row.Status == cluster.InstanceActive {
				all = append(all, nodegroup.Action{Kind: nodegroup.Drain, Instance: v.ID, Node: v.Row.ID})
			}
		}
		return all
	}}, "are out of service at once", nil},
	{plant{name: "DrainTimeoutOff", row: func(u *cluster.Update) *cluster.Update {
		return change(u, func(u *cluster.Update) { u.Timeouts.Drain = 1000 * time.Hour })
	}}, "is DRAINING for", func(w *world) { w.blocked["web"] = true }},
	{plant{name: "NotPutBack", act: without(nodegroup.Activate)}, "is DRAINING for",
		func(w *world) { w.blocked["web"] = true }},
	{plant{name: "SurgeNotTakenBack", row: func(u *cluster.Update) *cluster.Update {
		if u.Phase != cluster.PhaseScaleDown {
			return u
		}
		return change(u, func(u *cluster.Update) {
			u.Status, u.FinalSizes = cluster.UpdateSuccessful, &cluster.Sizes{Min: 1, Max: 12, Desired: 10}
		})
	}}, "and nothing says why", nil},
	{plant{name: "TooManyAtOnce", row: func(u *cluster.Update) *cluster.Update {
		return change(u, func(u *cluster.Update) {
			if u.Phase == cluster.PhaseUpgrade {
				u.MaxUnavailable = 2
			}
		})
	}}, "nodes are out of service at once, at most 1", nil},
	{plant{name: "ReplacementsNotWaitedFor", row: func(u *cluster.Update) *cluster.Update {
		return change(u, func(u *cluster.Update) { u.RequiredNodes = 0 })
	}}, "nodes are in service", func(w *world) { w.slow = 10 * time.Minute }},
	{plant{name: "MarksLeft", act: without(nodegroup.Uncordon), see: func(u *cluster.Update, all []nodegroup.Instance) {
		for k, i := range all {
			if i.Row != nil && u.Phase == cluster.PhaseRestore {
				row := *i.Row
				row.Attributes = nil
				all[k].Row = &row
			}
		}
	}}, "is left unschedulable", func(w *world) { w.blocked["web"] = true }},
}

// Each planted bug is found, and without it the same world passes.
func TestPlantedBugs(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			for _, planted := range []bool{false, true} {
				w := newWorld(t, 2, 3, cluster.UpdateConfig{MaxUnavailable: 1})
				if p.in != nil {
					p.in(w)
				}
				if planted {
					w.plant = p.plant
				}
				w.begin()
				w.run()
				if said := strings.Join(w.checker.breaches, "\n"); planted != strings.Contains(said, p.says) ||
					!planted && said != "" {
					t.Errorf("planted %v: %q, want %q", planted, said, p.says)
				}
			}
		})
	}
}
