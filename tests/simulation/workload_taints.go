package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"berth/shared/cluster"
)

// Taints of instances, and the tolerations of services (N11).

// taintKinds are actions of a quarter of the runs. Like [extraKinds] they have a source of their
// own.
var taintKinds = []string{"taint", "taint", "taint", "remove-taints", "tolerate", "tolerate", "tolerate"}

// taints are what an instance may have, tolerations what a service may have. The last one of a
// service tolerates nothing.
var (
	taints = []string{"team:a:NO_SCHEDULE", "team:b:NO_EXECUTE", "spot::NO_SCHEDULE", "spot::NO_EXECUTE",
		"team:a:NO_EXECUTE spot::NO_SCHEDULE"}
	tolerations = []string{"team", "team=a", "team=b:NO_EXECUTE", "spot", "spot:NO_SCHEDULE team=a", "*",
		"*:NO_SCHEDULE", ""}
)

// drawTaints draws the actions on taints that a seed has in addition to its history.
func drawTaints(seed uint64, span time.Duration) []Action {
	rng := rand.New(rand.NewPCG(seed, 0x7461696e7473))
	if rng.IntN(4) > 0 {
		return nil
	}
	var out []Action
	for range 5 + rng.IntN(8) {
		at := time.Duration(rng.Int64N(int64(span))).Truncate(time.Millisecond)
		out = append(out, Action{at, taintKinds[rng.IntN(len(taintKinds))], rng.Uint64(), rng.IntN(8)})
	}
	return out
}

// taintInstance gives an instance taints, in place of those that it has.
func (w *World) taintInstance(a Action) {
	if i := w.pickInstance(a); i != nil {
		w.changeTaints(a, "PutAttributes", i.ID, taints[a.Pick/7%uint64(len(taints))])
	}
}

// removeTaints removes the taints of an instance.
func (w *World) removeTaints(a Action) {
	for _, i := range w.instances() {
		if i.Attributes[cluster.AttributeTaints] != "" {
			w.changeTaints(a, "DeleteAttributes", i.ID, "")
			return
		}
	}
}

func (w *World) changeTaints(a Action, op, instance, value string) {
	w.logf("%s of %s: %s %s", op, instance, cluster.AttributeTaints, value)
	attribute := map[string]string{
		"name": cluster.AttributeTaints, "targetId": instance, "targetType": "container-instance",
	}
	if value != "" {
		attribute["value"] = value
	}
	w.changeInstance(a, op, map[string]any{"cluster": clusterName, "attributes": []map[string]string{attribute}})
}

// changeTolerations changes what taints the tasks of a service tolerate.
func (c *apiClient) changeTolerations(a Action) {
	s := c.pickService(a)
	if s == nil {
		return
	}
	text := tolerations[a.Pick/7%uint64(len(tolerations))]
	next, err := cluster.ReadTolerations(text)
	if err != nil {
		c.world.checker.Fail("reading tolerations %q: %v", text, err)
		return
	}
	c.world.logf("tolerations of %s: %s", s.name, text)
	c.changeService(s, func(ctx context.Context) error {
		return c.world.API.Tags.TagResource(ctx, cluster.ResourceARN{Kind: "service", Cluster: clusterName, Name: s.name},
			map[string]string{cluster.TagTolerations: text}, nil)
	}, func() {
		if s.rules != nil {
			was := *s.rules
			was.Tolerations = next
			s.rules = &was
		}
	})
}
