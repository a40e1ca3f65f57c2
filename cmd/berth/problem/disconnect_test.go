package problem_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// What becomes of the tasks of a disconnected instance depends on whose they are, and on whether
// Berth has given them up.
func TestTasksOnADisconnectedInstance(t *testing.T) {
	stopping := func(t *cluster.Task) { t.Desired = cluster.TaskStopped }
	standalone := func(t *cluster.Task) { t.Service, t.Owner = "", "prod" }
	const begin = "n-1: no new tasks start there"
	for name, c := range map[string]struct {
		tasks []func(*cluster.Task)
		want  string
		after time.Duration // 10 minutes, if it is not set
	}{
		"None": {nil, begin + ", and none run there.", 0},
		"OneOfAService": {[]func(*cluster.Task){nil}, begin + ". 1 task of services there is replaced elsewhere once the " +
			"agent has been disconnected for 10 minutes (parameter LostAfterSeconds, unless it was changed).", 0},
		"LongerThanTheTimeout": {[]func(*cluster.Task){nil, nil}, begin + ". 2 tasks of services there are being replaced " +
			"elsewhere: the agent has been disconnected for more than 10 minutes (parameter LostAfterSeconds, unless it was changed).", 11 * time.Minute},
		"GivenUp": {[]func(*cluster.Task){stopping, stopping}, begin + ". 2 tasks were told to stop there, and will when " +
			"the agent returns.", 0},
		"OfEachKind": {[]func(*cluster.Task){nil, nil, stopping, standalone}, begin + ". 2 tasks of services there are " +
			"replaced elsewhere once the agent has been disconnected for 10 minutes (parameter LostAfterSeconds, unless it was changed). 1 task was " +
			"told to stop there, and will when the agent returns. 1 standalone task there is not replaced.", 0},
	} {
		w := newWorld()
		w.input.Now = noon.Add(cmp.Or(c.after, 10*time.Minute))
		w.instance(1, func(i *cluster.Instance) { i.AgentConnected, i.DisconnectedAt = false, cluster.At(noon) })
		w.service("web", 0)
		replaceable := false
		for k, change := range c.tasks {
			if replaceable = replaceable || change == nil && c.after == 0; change == nil {
				change = func(*cluster.Task) {}
			}
			w.task("web", 1+k, "n-1", change)
		}
		all := w.find(t)
		at := slices.IndexFunc(all, func(p problem.Problem) bool { return p.Kind == problem.InstanceLost })
		if at < 0 || all[at].Why != c.want {
			t.Errorf("%s: %+v, want %s", name, all, c.want)
			continue
		}
		if got := strings.Contains(all[at].Help[1].What, "replaced"); got != replaceable {
			t.Errorf("%s: %q, tasks to replace: %v", name, all[at].Help[1].What, replaceable)
		}
	}
}

// The timeout that is printed is that of the asked installation, and decides which tasks are being
// replaced.
func TestTimeoutOfTheInstallation(t *testing.T) {
	for _, c := range []struct {
		timeout time.Duration
		want    string
	}{
		{90 * time.Second, "n-1: no new tasks start there. 1 task of services there is being replaced elsewhere: the agent " +
			"has been disconnected for more than 90 seconds (parameter LostAfterSeconds)."},
		{20 * time.Minute, "n-1: no new tasks start there. 1 task of services there is replaced elsewhere once the agent " +
			"has been disconnected for 20 minutes (parameter LostAfterSeconds)."},
	} {
		w := newWorld()
		w.instance(1, func(i *cluster.Instance) { i.AgentConnected, i.DisconnectedAt = false, cluster.At(noon) })
		w.service("web", 1)
		w.task("web", 1, "n-1")
		w.input.Capacity = &whatif.Capacity{DisconnectTimeout: &c.timeout}
		if all := w.find(t); len(all) != 1 || all[0].Why != c.want {
			t.Errorf("%+v, want %s", all, c.want)
		}
	}
}
