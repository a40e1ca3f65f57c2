package simulation

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// announceLate lets all tasks of a service end and be replaced. Then the inbox row of an invocation
// that was suspended since then announces the tasks as they were before. It returns the invariants
// that break in the ten minutes after that.
func announceLate(t *testing.T, bug Bug) []string {
	const tasks = 4
	s := newBuggyScenario(t, bug, 2, machine)
	s.createService("web", "small", tasks)
	s.awaitRunning("web", tasks)
	s.awaitSteady("web")
	var before []*cluster.Task
	ended := map[string]bool{}
	for _, task := range s.activeTasks("web") {
		before, ended[task.ID] = append(before, new(*task)), true
		s.callECS("StopTask", `{"cluster":"`+clusterName+`","task":"`+task.ECSID+`"}`)
	}
	isReplacement := func(task *cluster.Task) bool { return isRunning(task) && !ended[task.ID] }
	s.await("the replacements", 5*time.Minute, func() bool { return len(s.activeTasks("web", isReplacement)) == tasks })
	s.passTime(10 * time.Second)
	late, err := state.NewInbox(clusterName, s.Loop.Now(), before)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store.Write(t.Context(), state.Write{Put: late, Any: true}); err != nil {
		t.Fatal(err)
	}
	s.runUntil(s.Loop.Now().Add(10 * time.Minute))
	if n := len(s.activeTasks("web", isReplacement)); bug == NoBug && n != tasks {
		t.Errorf("%d replacements are RUNNING, want %d", n, tasks)
	}
	broken := s.checker.Broken
	s.checker.Broken = nil // they are the caller's to judge
	return broken
}

// An inbox row that is written late changes nothing: placement knows newer versions of its tasks.
// Without that it would see twice as many tasks as are wanted, and stop those that run.
func TestOlderRecordsChangeNothing(t *testing.T) {
	if broken := announceLate(t, NoBug); len(broken) > 0 {
		t.Errorf("broke: %s", broken)
	}
	t.Run(string(MergeOlder), func(t *testing.T) {
		if broken := announceLate(t, MergeOlder); len(broken) == 0 {
			t.Error("nothing broke")
		}
	})
}
