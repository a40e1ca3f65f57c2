package service

import (
	"slices"
	"testing"

	"berth/shared/cluster"
)

// eventNames returns the eventNames that a plan emits.
func eventNames(p Plan) (names []string) {
	for _, e := range slices.Concat(p.EventsBefore, p.EventsAfter) {
		if e.Name != "" {
			names = append(names, e.Name)
		}
	}
	return names
}

func TestEventNames(t *testing.T) {
	t.Run("ComputedDesiredCountIsEmitted", func(t *testing.T) {
		w := daemon(t, "a", "b")
		expect(t, "while it stays", slices.Contains(eventNames(w.step()), "SERVICE_DESIRED_COUNT_UPDATED"), false)
		w.eligible = []string{"a", "b", "c"}
		expect(t, "when it changes", slices.Contains(eventNames(w.step()), "SERVICE_DESIRED_COUNT_UPDATED"), true)
		expect(t, "after that", slices.Contains(eventNames(w.step()), "SERVICE_DESIRED_COUNT_UPDATED"), false)
	})
	t.Run("DesiredCountOfTheUserIsNotEmitted", func(t *testing.T) {
		w := at(t, 2)
		next := *w.service
		next.Desired = 4
		w.service = &next
		expect(t, "emitted", slices.Contains(eventNames(w.step()), "SERVICE_DESIRED_COUNT_UPDATED"), false)
	})
	t.Run("DaemonThatBreaksItsConstraintsIsEmitted", func(t *testing.T) {
		w := daemon(t, "a", "b")
		w.eligible = []string{"a"}
		in := w.input()
		in.MeetsConstraints = func(instance string) bool { return instance == "a" }
		w.protect["none"] = w.now
		p := Reconcile(in)
		expect(t, "emitted", slices.Contains(eventNames(p), "SERVICE_DAEMON_PLACEMENT_CONSTRAINT_VIOLATED"), true)
		expect(t, "stops", len(p.Stops), 1)
		in.Service = p.Next // as where the stop has yet to be seen
		expect(t, "emitted again", slices.Contains(eventNames(Reconcile(in)),
			"SERVICE_DAEMON_PLACEMENT_CONSTRAINT_VIOLATED"), false)
		in.MeetsConstraints = nil
		expect(t, "where it is draining", slices.Contains(eventNames(Reconcile(w.input())),
			"SERVICE_DAEMON_PLACEMENT_CONSTRAINT_VIOLATED"), false)
	})
	for _, registry := range []bool{true, false} {
		t.Run(map[bool]string{true: "AnUnhealthyInstanceOfCloudMap", false: "AnUnhealthyTargetHasNone"}[registry],
			func(t *testing.T) {
				w := at(t, 2)
				id := w.ids()[0]
				w.targets[id] = &cluster.Target{Task: id, Registrations: []cluster.Registration{{
					ARN: "arn:x", Registry: registry, State: cluster.Registered, Health: cluster.Unhealthy,
				}}}
				expect(t, "emitted", slices.Contains(eventNames(w.step()), "SERVICE_DISCOVERY_INSTANCE_UNHEALTHY"),
					registry)
			})
	}
}
