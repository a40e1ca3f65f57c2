package e2e

import (
	"slices"
	"sync"

	"berth/tests/cloud"
)

// A callLog keeps the calls of the functions, as their SDK sent them.
type callLog struct {
	mu  sync.Mutex
	all []cloud.Call
}

func (c *callLog) addCall(call cloud.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call)
}

// callsSince returns the calls from the nth on.
func (c *callLog) callsSince(n int) []cloud.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all[n:])
}

// A grant is an action that a function may perform.
type grant struct{ function, action string }

// sampleCalls returns the grants that the calls used, with one call each.
func (l *local) sampleCalls(calls []cloud.Call) map[grant]cloud.Call {
	found := map[grant]cloud.Call{}
	for _, call := range calls {
		function := l.Caller(call.AccessKey)
		if function == "" {
			continue
		}
		for _, action := range call.Actions() {
			found[grant{function, action}] = call
		}
	}
	return found
}
