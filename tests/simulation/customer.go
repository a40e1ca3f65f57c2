package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
)

// customer is everybody who calls the API. What was acknowledged to it has to hold in the end.
type customer struct {
	world    *World
	services []*wanted
	tasks    []string // ids that it was given
	last     *cluster.TaskSpec
	lastIDs  []string
}

// wanted is a service as the API last acknowledged it.
type wanted struct {
	name    string
	daemon  bool
	desired int
	exists  bool
	busy    bool
}

// definitions are the task definitions of the simulation: families by what is scarce about them.
var definitions = map[string]string{
	"small": `{"family":"small","containerDefinitions":[{"name":"main","image":"i","cpu":256,"memory":256}]}`,
	"big":   `{"family":"big","containerDefinitions":[{"name":"main","image":"i","cpu":900,"memory":1024}]}`,
	"port": `{"family":"port","networkMode":"host","containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64,
	          "portMappings":[{"containerPort":8080,"hostPort":8080}]}]}`,
	"share": `{"family":"share","tags":[{"key":"berth:gpu-milli","value":"400"}],
	           "containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64}]}`,
	"checked": `{"family":"checked","containerDefinitions":[{"name":"main","image":"i","cpu":128,"memory":128,
	             "healthCheck":{"command":["CMD","true"]}}]}`,
}

var families = []string{"small", "big", "port", "share", "checked"}

func (w *World) register() {
	for _, f := range families {
		if status, answer := w.Fleet.Endpoint().Serve(context.Background(), "RegisterTaskDefinition", []byte(definitions[f])); status != http.StatusOK {
			w.checker.fail("registering %s: %s", f, answer)
		}
	}
}

// call runs an operation as a client does: again after every failure that may pass, until it is answered.
func (c *customer) call(name string, f func(ctx context.Context) error, answered func(err error)) {
	c.world.spawn(name, client, func(ctx context.Context) {
		for {
			err := f(ctx)
			var refused *cluster.Error
			if err == nil || errors.As(err, &refused) && refused.Code != cluster.CodeThrottling {
				c.world.note("%s: answered %v", name, err)
				answered(err)
				return
			}
			if processOf(ctx).sleep(3*time.Second) != nil {
				return
			}
		}
	}, func(bool) {})
}

func (c *customer) create(a Action, daemon bool) {
	s := &wanted{name: fmt.Sprintf("s%d", a.Pick%5), daemon: daemon, desired: a.N, exists: true, busy: true}
	i := slices.IndexFunc(c.services, func(o *wanted) bool { return o.name == s.name })
	if i >= 0 && (c.services[i].exists || c.services[i].busy) {
		return
	}
	spec := cluster.ServiceSpec{
		Cluster: clusterName, Name: s.name, TaskDefinition: families[a.Pick%uint64(len(families))], Desired: &s.desired,
		Token: fmt.Sprint("create", a.Pick),
	}
	if daemon {
		spec.Strategy, spec.Desired, spec.TaskDefinition = cluster.Daemon, nil, "checked"
	}
	c.call("create "+s.name, func(ctx context.Context) error {
		_, err := c.world.API.CreateService(ctx, spec)
		return err
	}, func(err error) {
		s.busy = false
		if err != nil {
			return // its name is still being drained
		}
		c.services = slices.DeleteFunc(c.services, func(o *wanted) bool { return o.name == s.name })
		c.services = append(c.services, s)
	})
}

// pick is a service that exists and that nobody is changing; nil if there is none.
func (c *customer) pick(a Action) *wanted {
	var free []*wanted
	for _, s := range c.services {
		if s.exists && !s.busy {
			free = append(free, s)
		}
	}
	if len(free) == 0 {
		return nil
	}
	return free[a.Pick%uint64(len(free))]
}

func (c *customer) scale(a Action) {
	s := c.pick(a)
	if s == nil || s.daemon {
		return
	}
	s.busy = true
	c.call("scale "+s.name, func(ctx context.Context) error {
		_, err := c.world.API.UpdateService(ctx, cluster.ServiceChange{Cluster: clusterName, Name: s.name, Desired: &a.N})
		return err
	}, func(err error) {
		s.busy = false
		if err != nil {
			c.world.checker.fail("invariant 9: service %s was acknowledged, and scaling it says %v", s.name, err)
		}
		s.desired = a.N
	})
}

func (c *customer) remove(a Action) {
	s := c.pick(a)
	if s == nil {
		return
	}
	s.busy = true
	c.call("delete "+s.name, func(ctx context.Context) error {
		_, err := c.world.API.DeleteService(ctx, clusterName, s.name, true)
		return err
	}, func(err error) {
		s.busy, s.exists = false, false
		// An earlier try may have taken effect without our knowing.
		if err != nil && cluster.ErrorCode(err) != cluster.CodeServiceNotActive {
			c.world.checker.fail("invariant 9: service %s was acknowledged, and deleting it says %v", s.name, err)
		}
	})
}

func (c *customer) run(a Action, wait string) {
	spec := cluster.TaskSpec{
		Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: families[a.Pick%uint64(len(families))],
		Count: 1 + a.N%3, Wait: wait, Token: fmt.Sprint("run", a.Pick), Params: fmt.Sprint(a.Pick),
	}
	c.submit(spec)
}

func (c *customer) submit(spec cluster.TaskSpec) {
	c.call("run "+spec.Token, func(ctx context.Context) error {
		tasks, failures, err := c.world.API.SubmitTasks(ctx, spec)
		if err != nil {
			return err
		}
		var ids []string
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
		if want := max(spec.Count, len(spec.Instances)); len(tasks)+len(failures) < want {
			c.world.checker.fail("request %s for %d tasks was answered with %d and %d failures", spec.Token, want, len(tasks), len(failures))
		}
		c.repeated(spec, ids)
		c.tasks = append(c.tasks, ids...)
		return nil
	}, func(error) {})
}

// repeated checks that the same clientToken gave the same tasks.
func (c *customer) repeated(spec cluster.TaskSpec, ids []string) {
	if c.last != nil && c.last.Token == spec.Token && len(c.lastIDs) > 0 && len(ids) > 0 && !slices.Equal(c.lastIDs, ids) {
		c.world.checker.fail("invariant 9: request %s gave tasks %v and then %v", spec.Token, c.lastIDs, ids)
	}
	c.last, c.lastIDs = &spec, ids
}

func (c *customer) start(a Action) {
	instances := c.world.instances()
	if len(instances) == 0 {
		return
	}
	c.submit(cluster.TaskSpec{
		Kind: cluster.StartTask, Cluster: clusterName, TaskDefinition: families[a.Pick%uint64(len(families))],
		Instances: []string{instances[a.Pick%uint64(len(instances))].ID}, Token: fmt.Sprint("start", a.Pick), Params: fmt.Sprint(a.Pick),
	})
}

func (c *customer) stop(a Action) {
	if len(c.tasks) == 0 {
		return
	}
	id := c.tasks[a.Pick%uint64(len(c.tasks))]
	c.call("stop "+id, func(ctx context.Context) error {
		_, err := c.world.API.StopTask(ctx, clusterName, id, "")
		return err
	}, func(error) {})
}

// act lets an action take place.
func (w *World) act(a Action) {
	switch c := w.client; a.Kind {
	case "create-service":
		c.create(a, false)
	case "create-daemon":
		c.create(a, true)
	case "scale":
		c.scale(a)
	case "delete-service":
		c.remove(a)
	case "run-task":
		c.run(a, "")
	case "run-waiting":
		c.run(a, handler.WaitForever)
	case "start-task":
		c.start(a)
	case "stop-task":
		c.stop(a)
	case "repeat-request":
		if c.last != nil {
			c.submit(*c.last)
		}
	default:
		w.befall(a)
	}
}

// befall lets something happen to the fleet. An instance or task that has gone meanwhile is none of our business, so
// errors say nothing.
func (w *World) befall(a Action) {
	instances := w.instances()
	if len(instances) == 0 || a.Kind == "add-instance" {
		_, _ = w.Fleet.AddInstances(clusterName, 1+a.N%2, machine)
		return
	}
	i := instances[a.Pick%uint64(len(instances))]
	switch a.Kind {
	case "kill-instance":
		_ = w.Fleet.KillInstance(i.ID)
	case "crash-instance":
		_ = w.Fleet.CrashInstance(i.ID)
	case "disconnect":
		_ = w.Fleet.Disconnect(i.ID)
	case "reconnect":
		_ = w.Fleet.Reconnect(i.ID)
	case "flap-agent":
		for n := range 6 {
			w.Loop.After(time.Duration(n)*2*time.Second, func() {
				if n%2 == 0 {
					_ = w.Fleet.Disconnect(i.ID)
				} else {
					_ = w.Fleet.Reconnect(i.ID)
				}
			})
		}
	case "drain":
		w.setState(i.ID, "DRAINING")
	case "activate":
		w.setState(i.ID, "ACTIVE")
	case "fail-zone":
		_, _ = w.Fleet.FailZone(i.Zone())
	case "resize":
		_ = w.Fleet.Resize(i.ID, 1500, 1500)
	default:
		w.befallTasks(a)
	}
}

func (w *World) setState(instance, status string) {
	body, err := json.Marshal(map[string]any{"cluster": clusterName, "containerInstances": []string{instance}, "status": status})
	if err != nil {
		w.checker.fail("%v", err)
		return
	}
	w.Fleet.Endpoint().Serve(context.Background(), "UpdateContainerInstancesState", body)
}

func (w *World) befallTasks(a Action) {
	if a.Kind == "foreign-task" {
		w.foreign(a)
		return
	}
	var alive []string
	for _, t := range w.Fleet.Truth(clusterName) {
		if t.Alive && t.Last == cluster.TaskRunning {
			alive = append(alive, t.ID)
		}
	}
	if len(alive) == 0 {
		return
	}
	id := alive[a.Pick%uint64(len(alive))]
	switch a.Kind {
	case "crash-task":
		_ = w.Fleet.CrashTask(id, 1)
	case "unhealthy":
		_ = w.Fleet.SetHealth(id, false)
	case "all-unhealthy":
		for _, t := range alive {
			_ = w.Fleet.SetHealth(t, false)
		}
	}
}

// foreign has somebody else start a task, without asking Berth.
func (w *World) foreign(a Action) {
	instances := w.instances()
	i := instances[a.Pick%uint64(len(instances))]
	body, err := json.Marshal(map[string]any{
		"cluster": clusterName, "containerInstances": []string{i.ID}, "taskDefinition": "small", "startedBy": "somebody",
	})
	if err != nil {
		w.checker.fail("%v", err)
		return
	}
	w.Fleet.Endpoint().Serve(context.Background(), "StartTask", body)
}
