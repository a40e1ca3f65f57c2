package simulation

import (
	"fmt"
	"strings"
	"time"

	"berth/shared/cluster"
)

// checker holds every commit against the invariants, on a copy of the rows of its own, with rules of its own: it
// shares no code with what it checks but the nouns.
type checker struct {
	rows map[cluster.Key]cluster.Row
	old  map[cluster.Key]cluster.Row // one version back, for stale reads
	// starts counts the StartTask calls per batch and instance.
	starts map[string]int
	calls  int // of StartTask and StopTask
	broken []string
	now    func() time.Time
}

// lately is how long ago a failure may have been recorded and still be news to a decision.
const lately = 15 * time.Minute

func newChecker(now func() time.Time) *checker {
	return &checker{now: now, rows: map[cluster.Key]cluster.Row{}, old: map[cluster.Key]cluster.Row{}, starts: map[string]int{}}
}

// fail notes a broken invariant.
func (c *checker) fail(format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf(format, args...))
}

func (c *checker) previous(key cluster.Key) (cluster.Row, bool) {
	row, ok := c.old[key]
	return row, ok
}

// records takes in one commit's records and checks what it changed.
func (c *checker) records(records []cluster.Record) {
	for _, r := range records {
		before := c.rows[r.Key]
		c.old[r.Key] = before
		if r.New == nil {
			delete(c.rows, r.Key)
		} else {
			c.rows[r.Key] = r.New
		}
		c.progress(r.Key, before, r.New)
	}
	for _, r := range records {
		switch row := r.New.(type) {
		case *cluster.Task:
			old, _ := r.Old.(*cluster.Task)
			if row.Instance != "" && !row.Foreign && (old == nil || old.Instance == "") {
				c.placed(row)
			}
			if old != nil && old.Desired == cluster.TaskRunning && row.Desired == cluster.TaskStopped {
				c.stopped(old, row)
			}
		}
	}
}

// progress checks what no row may ever do: go back.
func (c *checker) progress(key cluster.Key, before, after cluster.Row) {
	switch now := after.(type) {
	case *cluster.Task:
		old, ok := before.(*cluster.Task)
		if !ok {
			return
		}
		if now.Version < old.Version {
			c.fail("task %s went back from version %d to %d", now.ID, old.Version, now.Version)
		}
		if old.Last == cluster.TaskStopped && now.Last != cluster.TaskStopped {
			c.fail("invariant 2: task %s was STOPPED and is %s again", now.ID, now.Last)
		}
		if old.ECSID != "" && now.ECSID != old.ECSID {
			c.fail("invariant 2: task %s adopted %s after %s", now.ID, now.ECSID, old.ECSID)
		}
		if old.Instance != "" && now.Instance != old.Instance {
			c.fail("task %s moved from instance %s to %s", now.ID, old.Instance, now.Instance)
		}
		if now.Attempt != old.Attempt && now.Attempt != old.Attempt+1 {
			c.fail("task %s went from attempt %d to %d", now.ID, old.Attempt, now.Attempt)
		}
	case *cluster.Instance:
		if old, ok := before.(*cluster.Instance); ok && now.Version < old.Version {
			c.fail("instance %s went back from version %d to %d", now.ID, old.Version, now.Version)
		}
	case *cluster.Meta:
		if old, ok := before.(*cluster.Meta); ok && now.Version < old.Version {
			c.fail("the placement version of %s went back from %d to %d", key.Cluster, old.Version, now.Version)
		}
	}
}

// on are the tasks that hold capacity on an instance.
func (c *checker) on(clusterName, instance string) []*cluster.Task {
	var out []*cluster.Task
	for key, row := range c.rows {
		if t, ok := row.(*cluster.Task); ok && key.Cluster == clusterName && t.Instance == instance && t.Last != cluster.TaskStopped {
			out = append(out, t)
		}
	}
	return out
}

// placed checks a new placement: invariants 1, 3, 4 and 5.
func (c *checker) placed(t *cluster.Task) {
	i, ok := c.rows[cluster.InstanceKey(t.Cluster, t.Instance)].(*cluster.Instance)
	if !ok {
		c.fail("invariant 1: task %s was placed on instance %s, which is not known", t.ID, t.Instance)
		return
	}
	if i.Status != cluster.InstanceActive || !i.AgentConnected {
		c.fail("invariant 5: task %s was placed on instance %s, which is %s, agent connected %t", t.ID, i.ID, i.Status, i.AgentConnected)
	}
	c.capacity(t, i)
	c.attributes(t, i)
	c.ceiling(t)
}

func (c *checker) capacity(t *cluster.Task, i *cluster.Instance) {
	var cpu, memory int64
	gpus := make([]int, len(i.Registered.GPUs))
	ports := map[cluster.Port]string{}
	for _, p := range i.Registered.Ports {
		ports[p] = "the agent"
	}
	for _, o := range c.on(t.Cluster, i.ID) {
		cpu += o.Needs.CPU
		memory += o.Needs.Memory
		for _, g := range o.GPUs {
			if share := o.Needs.GPUMilli; share > 0 {
				gpus[g] += share
			} else {
				gpus[g] += 1000
			}
		}
		for _, p := range o.Ports {
			if holder, taken := ports[p]; taken && (o.ID == t.ID || holder == t.ID) {
				c.fail("invariant 1: task %s was placed on instance %s, where %s has port %d", t.ID, i.ID, holder, p.Number)
			}
			ports[p] = o.ID
		}
	}
	if cpu > i.Registered.CPU || memory > i.Registered.Memory {
		c.fail("invariant 1: with task %s instance %s holds %d/%d CPU, %d/%d MiB", t.ID, i.ID, cpu, i.Registered.CPU, memory, i.Registered.Memory)
	}
	for g, used := range gpus {
		if used > 1000 {
			c.fail("invariant 1: with task %s GPU %d of instance %s holds %d thousandths", t.ID, g, i.ID, used)
		}
	}
}

func (c *checker) attributes(t *cluster.Task, i *cluster.Instance) {
	def, ok := c.rows[cluster.TaskDefinitionKey(t.Cluster, t.TaskDefinition)].(*cluster.TaskDefinition)
	if !ok {
		c.fail("task %s uses task definition %s, which is not cached", t.ID, t.TaskDefinition)
		return
	}
	for _, want := range def.Attributes {
		name, value, valued := strings.Cut(want, "=")
		if got, has := i.Attributes[name]; !has || valued && got != value {
			c.fail("invariant 5: task %s was placed on instance %s without attribute %s", t.ID, i.ID, want)
		}
	}
}

// ceiling checks invariants 3 and 4 of the service that the new task belongs to.
func (c *checker) ceiling(t *cluster.Task) {
	s := c.service(t)
	if s == nil {
		return
	}
	active := 0
	for _, row := range c.rows {
		o, ok := row.(*cluster.Task)
		if !ok || o.Owner != t.Owner || o.Desired != cluster.TaskRunning || o.Last == cluster.TaskStopped || o.Instance == "" {
			continue
		}
		active++
		if s.Strategy == cluster.Daemon && o.ID != t.ID && o.Instance == t.Instance {
			c.fail("invariant 4: daemon %s has tasks %s and %s on instance %s", s.Name, o.ID, t.ID, t.Instance)
		}
	}
	if most := s.Desired * s.MaxPercent / 100; s.Strategy == cluster.Replica && active > most {
		c.fail("invariant 3: service %s has %d active tasks, at most %d are allowed", s.Name, active, most)
	}
}

// stopped checks invariant 3 of a task that Berth itself decided to stop.
func (c *checker) stopped(old, now *cluster.Task) {
	s := c.service(now)
	if s == nil || s.Strategy != cluster.Replica || now.StopCode != cluster.StopByScheduler || old.Last != cluster.TaskRunning {
		return
	}
	healthy := 0
	for _, row := range c.rows {
		o, ok := row.(*cluster.Task)
		if !ok || o.Owner != now.Owner || o.Desired != cluster.TaskRunning {
			continue
		}
		// A failure recorded lately may not have been among the rows that the decision read.
		if o.Last == cluster.TaskRunning || o.Last == cluster.TaskStopped && c.now().Sub(o.Stopped) < lately {
			healthy++
		}
	}
	if least := (s.Desired*s.MinHealthy + 99) / 100; s.Status == cluster.ServiceActive && healthy < least {
		c.fail("invariant 3: stopping task %s leaves service %s with %d running tasks, at least %d must be", now.ID, s.Name, healthy, least)
	}
}

// service is the service that the task belongs to, as it now is; nil for a standalone task.
func (c *checker) service(t *cluster.Task) *cluster.Service {
	s, ok := c.rows[cluster.ServiceKey(t.Cluster, t.Service)].(*cluster.Service)
	if !ok || t.Service == "" || s.Short != t.Owner {
		return nil
	}
	return s
}

// startCalled checks that nobody starts a task without having claimed the attempt: there are never more StartTask
// calls for a task than its row says.
func (c *checker) startCalled(call cluster.StartCall) {
	c.calls++
	for _, instance := range call.Instances {
		slot := call.StartedBy + "@" + instance
		c.starts[slot]++
		attempts := 0
		for _, row := range c.rows {
			if t, ok := row.(*cluster.Task); ok && t.Batch == call.StartedBy && t.Instance == instance {
				attempts = t.Attempt
			}
		}
		if c.starts[slot] > attempts {
			c.fail("invariant 2: start %d of %s, but its row is at attempt %d", c.starts[slot], slot, attempts)
		}
	}
}

// fits is a rule of its own for what an instance can take, beside what it holds.
func (c *checker) fits(i *cluster.Instance, def *cluster.TaskDefinition, needs cluster.Resources) bool {
	cpu, memory := i.Registered.CPU-needs.CPU, i.Registered.Memory-needs.Memory
	gpus := make([]int, len(i.Registered.GPUs))
	ports := map[cluster.Port]bool{}
	for _, p := range i.Registered.Ports {
		ports[p] = true
	}
	for _, o := range c.on(i.Cluster, i.ID) {
		cpu, memory = cpu-o.Needs.CPU, memory-o.Needs.Memory
		for _, g := range o.GPUs {
			gpus[g] += o.Needs.PerGPU()
		}
		for _, p := range o.Ports {
			ports[p] = true
		}
	}
	for _, p := range def.Ports {
		if ports[p] {
			return false
		}
	}
	free := 0
	for _, used := range gpus {
		if used+needs.PerGPU() <= 1000 {
			free++
		}
	}
	return cpu >= 0 && memory >= 0 && free >= needs.GPUs
}
