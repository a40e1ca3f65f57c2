package invariant

import (
	"math/big"

	"berth/shared/cluster"
	"berth/shared/state"
)

// The rules for task sets (S15), written without the code under test.

// TaskSetCount returns how many tasks a task set of the service should have: its scale's share of
// the desired count, rounded up; none if it is being deleted or gone.
func TaskSetCount(s *cluster.Service, id string) int {
	for _, d := range append([]cluster.Deployment{s.Deployment}, s.Older...) {
		if d.ID != id || d.Set == nil || d.Set.Draining {
			continue
		}
		// as the decimal number that the caller wrote
		share, _ := new(big.Rat).SetString(big.NewFloat(d.Set.Scale).Text('f', 6))
		share.Mul(share, big.NewRat(int64(s.Desired), 100))
		n, rest := new(big.Int).DivMod(share.Num(), share.Denom(), new(big.Int))
		if rest.Sign() > 0 {
			n.Add(n, big.NewInt(1))
		}
		return int(n.Int64())
	}
	return 0
}

// wantedTasks returns how many tasks a service should have in all.
func wantedTasks(s *cluster.Service) (n int) {
	if s.Controller != cluster.ExternalController {
		return s.Desired
	}
	for _, d := range append([]cluster.Deployment{s.Deployment}, s.Older...) {
		n += TaskSetCount(s, d.ID)
	}
	return n
}

// checkTaskSetStop checks a task of a task set that Berth decided to stop: a healthy one only if
// its set has too many, or keeps as many healthy ones as minimumHealthyPercent of its count.
func (c *Checker) checkTaskSetStop(s *cluster.Service, old, now *cluster.Task) {
	count, active, healthy := TaskSetCount(s, now.Revision), 0, 0
	for key, o := range c.ByOwner[now.Owner] {
		unsettled := !c.isSettled(key)
		if o.Revision != now.Revision || o.ID == now.ID || o.Desired == cluster.TaskStopped && !unsettled {
			continue
		}
		if o.Last != cluster.TaskStopped || unsettled {
			active++
		}
		if c.ModelTask(s, o).IsHealthy(c.now()) || unsettled {
			healthy++
		}
	}
	stopping := c.ModelTask(s, old)
	mustGo := stopping.MustLeave || stopping.IsUnhealthy(ModelService(s), c.now()) && c.TrustsHealth()
	if !c.isSettled(state.KeyOf(now)) || !c.isInstanceSettled(now) {
		return
	}
	if active < count && !mustGo {
		c.Fail("invariant 3: stopping task %s leaves task set %s of service %s with %d tasks of %d", now.ID,
			now.Revision, s.Name, active, count)
	}
	if least := ModelService(s).Floor(count); stopping.IsHealthy(c.now()) && healthy < least &&
		!c.isLost(old, c.latestClock()) {
		c.Fail("invariant 3: stopping task %s leaves task set %s of service %s with %d healthy tasks, at least %d must be",
			now.ID, now.Revision, s.Name, healthy, least)
	}
}

// checkTaskSetStart checks a task of a task set that Berth decided to start: its set has at most
// maximumPercent of its count then.
func (c *Checker) checkTaskSetStart(s *cluster.Service, t *cluster.Task) {
	active := 0
	for key, o := range c.ByOwner[t.Owner] {
		if o.Revision == t.Revision && o.IsActive() && c.isSettled(key) && c.isInstanceSettled(o) && o.ID != t.ID {
			active++
		}
	}
	count := TaskSetCount(s, t.Revision)
	if most := ModelService(s).Ceiling(count); active+1 > most {
		c.Fail("invariant 3: starting task %s gives task set %s of service %s %d tasks of %d, at most %d are allowed",
			t.ID, t.Revision, s.Name, active+1, count, most)
	}
}
