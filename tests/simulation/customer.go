package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler/api"
	"berth/shared/operation"
)

// customer is everybody who calls the API. What was acknowledged to it has to hold in the end.
type customer struct {
	world    *World
	services []*wanted
	tasks    []string        // ids that it was given
	stops    map[string]bool // ids that it was told will be stopped
	last     *operation.SubmitTasks
	lastIDs  []string
	// config is the configuration acknowledged last, nil where it is not known which holds.
	config      *cluster.Configuration
	configuring bool
}

// wanted is a service as the API last acknowledged it.
type wanted struct {
	name    string
	daemon  bool
	desired int
	exists  bool
	busy    bool
	// definition is the task definition that it was last given, empty where its own was kept.
	definition string
	balanced   bool // registered with a target group
	provided   bool // has a capacity provider strategy
	// rules are those acknowledged last, nil where it is not known which hold; reruled tells that they have changed.
	rules   *cluster.Rules
	reruled bool
}

// definitions are the task definitions of the simulation: families by what is scarce about them.
var definitions = map[string]string{
	"small": `{"family":"small","containerDefinitions":[{"name":"main","image":"i","cpu":256,"memory":256}]}`,
	"big":   `{"family":"big","containerDefinitions":[{"name":"main","image":"i","cpu":900,"memory":1024}]}`,
	"port": `{"family":"port","networkMode":"host","containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64,
	          "portMappings":[{"containerPort":8080,"hostPort":8080}]}]}`,
	"share": `{"family":"share","tags":[{"key":"berth:gpu-milli","value":"400"}],
	           "containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64}]}`,
	"gpu": `{"family":"gpu","containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64,
	         "resourceRequirements":[{"type":"GPU","value":"1"}]}]}`,
	"checked": `{"family":"checked","containerDefinitions":[{"name":"main","image":"i","cpu":128,"memory":128,
	             "healthCheck":{"command":["CMD","true"]}}]}`,
	"disk": `{"family":"disk","containerDefinitions":[{"name":"main","image":"i","cpu":128,"memory":64}]}`,
	"vpc": `{"family":"vpc","networkMode":"awsvpc","containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64,
	         "portMappings":[{"containerPort":80}]}]}`,
	"tied": `{"family":"tied","placementConstraints":[{"type":"memberOf","expression":"attribute:disk != ssd"}],
	          "containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64}]}`,
	// No agent can do what this one needs.
	"nowhere": `{"family":"nowhere","containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64,
	             "logConfiguration":{"logDriver":"splunk"}}]}`,
}

var families = []string{"small", "small", "big", "port", "port", "share", "gpu", "checked", "checked", "disk", "nowhere", "vpc", "vpc", "tied"}

func (w *World) register() {
	for _, f := range slices.Compact(slices.Sorted(slices.Values(families))) {
		if status, answer := w.AWS.ECS.Endpoint().Serve(context.Background(), "RegisterTaskDefinition", []byte(definitions[f])); status != http.StatusOK {
			w.checker.fail("registering %s: %s", f, answer)
		}
	}
	w.registerBad()
}

func (w *World) family(a Action) string {
	f := families[a.Pick%uint64(len(families))]
	if f == "nowhere" {
		w.mark(MarkInfeasible)
	}
	return f
}

// networkOf is where tasks of the family have their network interface, nil where they have none of their own.
func networkOf(family string) *cluster.Network {
	if family != "vpc" {
		return nil
	}
	return &cluster.Network{Subnets: []string{"subnet-1"}}
}

// call runs an operation as a client does: again after every failure that may pass, until it is answered.
func (c *customer) call(name string, f func(ctx context.Context) error, answered func(err error)) {
	c.world.spawn(name, client, func(ctx context.Context) {
		p := processOf(ctx)
		for {
			err := f(ctx)
			if p.dead {
				p.revive()
				err = errCrashed
			}
			var refused *cluster.Error
			if err == nil || errors.As(err, &refused) && refused.Code != cluster.CodeThrottling {
				c.world.note("%s: answered %v", name, err)
				answered(err)
				return
			}
			if p.sleep(3*time.Second) != nil {
				return
			}
		}
	}, func(bool) {})
}

// percents are minimum healthy and maximum percent of services.
var percents = [][2]int{{100, 200}, {50, 100}, {0, 100}, {50, 150}, {100, 150}}

func (c *customer) create(a Action, daemon bool) {
	s := &wanted{name: fmt.Sprintf("s%d", a.Pick%5), daemon: daemon, desired: a.N, exists: true, busy: true}
	i := slices.IndexFunc(c.services, func(o *wanted) bool { return o.name == s.name })
	if i >= 0 && (c.services[i].exists || c.services[i].busy) {
		return
	}
	spec := operation.CreateService{
		Cluster: clusterName, Name: s.name, TaskDefinition: c.world.family(a), Desired: &s.desired,
		Token: fmt.Sprint("create", a.Pick), Params: fmt.Sprint(a.Pick),
	}
	if p := percents[a.Pick%uint64(len(percents))]; p[1] != 200 {
		spec.MinHealthy, spec.MaxPercent = &p[0], &p[1]
	}
	spec.Rules = drawRules(a.Pick, daemon)
	s.rules = &spec.Rules
	if daemon {
		spec.Strategy, spec.Desired, spec.TaskDefinition = cluster.Daemon, nil, []string{"checked", "checked", "disk"}[a.Pick%3]
		spec.MinHealthy, spec.MaxPercent = nil, nil
	}
	spec.Network = networkOf(spec.TaskDefinition)
	s.definition = spec.TaskDefinition
	if balancers, registries := c.world.balancers(spec.TaskDefinition, a.Pick/3); len(balancers) > 0 && !daemon {
		spec.LoadBalancers, s.balanced = &balancers, true
		if len(registries) > 0 {
			spec.Registries = &registries
		}
		c.world.mark(MarkBalanced)
	}
	c.world.note("create %s: %d of %s, rules %s", s.name, s.desired, spec.TaskDefinition, said(spec.Rules))
	c.call("create "+s.name, func(ctx context.Context) error {
		_, err := c.world.API.Services.CreateService(ctx, spec)
		return err
	}, func(err error) {
		s.busy = false
		if err != nil { // its name is still being drained, or its rules cannot be kept
			c.refused(spec.Rules, err)
			return
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

// change changes a service; done is what then holds. It may be refused where the service has rules that cannot be kept; an
// earlier try may have taken effect nevertheless.
func (c *customer) change(s *wanted, change operation.UpdateService, done func()) {
	change.Cluster, change.Name = clusterName, s.name
	c.edit(s, func(ctx context.Context) error {
		_, err := c.world.API.Services.UpdateService(ctx, change)
		return err
	}, done)
}

func (c *customer) edit(s *wanted, f func(ctx context.Context) error, done func()) {
	s.busy = true
	c.call("change "+s.name, f, func(err error) {
		s.busy = false
		switch {
		case err == nil:
			done()
		case cluster.ErrorCode(err) == cluster.CodeInvalidParameter:
			c.world.mark(MarkRulesRefused)
			s.desired, s.rules = unknown, nil
		default:
			c.world.checker.fail("invariant 9: service %s was acknowledged, and changing it says %v", s.name, err)
		}
	})
}

// unknown is the desired count of a service of which a change was refused that an earlier try may have made.
const unknown = -1

func (c *customer) scale(a Action) {
	if s := c.pick(a); s != nil && !s.daemon {
		c.change(s, operation.UpdateService{Desired: &a.N}, func() { s.desired = a.N })
	}
}

func (c *customer) percentages(a Action) {
	if s := c.pick(a); s != nil && !s.daemon {
		p := percents[a.N%len(percents)]
		c.change(s, operation.UpdateService{MinHealthy: &p[0], MaxPercent: &p[1]}, func() {})
	}
}

func (c *customer) remove(a Action) {
	s := c.pick(a)
	if s == nil {
		return
	}
	s.busy = true
	c.call("delete "+s.name, func(ctx context.Context) error {
		_, err := c.world.API.Services.DeleteService(ctx, clusterName, s.name, true)
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
	c.submit(operation.SubmitTasks{
		Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: c.world.family(a), Count: 1 + a.N%3, Wait: wait,
		Rules: drawTaskRules(a.Pick),
		Token: fmt.Sprint("run", a.Pick), Params: fmt.Sprint(a.Pick),
	}, nil)
}

func (w *World) runWaiting(a Action) {
	w.client.run(a, []string{api.WaitForever, "5m"}[a.N%2])
}

// submit asks for tasks; then, which may be nil, gets what it was given.
func (c *customer) submit(spec operation.SubmitTasks, then func(ids []string)) {
	spec.Network = networkOf(spec.TaskDefinition)
	c.call("run "+spec.Token, func(ctx context.Context) error {
		tasks, failures, err := c.world.API.Tasks.SubmitTasks(ctx, spec)
		if err != nil {
			return err
		}
		if processOf(ctx).dead {
			return errCrashed
		}
		var ids []string
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
		c.answered(spec, ids, len(failures))
		c.tasks = append(c.tasks, ids...)
		if then != nil {
			then(ids)
		}
		return nil
	}, func(error) {})
}

// answered checks that a request was answered in full, and that the same clientToken gave the same tasks: but for those
// that ended so long ago that they were forgotten.
func (c *customer) answered(spec operation.SubmitTasks, ids []string, failures int) {
	var before []string
	if c.last != nil && c.last.Token == spec.Token {
		before = c.lastIDs
	}
	forgotten := 0
	for _, id := range before {
		if slices.Contains(ids, id) {
			c.world.mark(MarkRepeated)
		} else if c.world.checker.forgotten(id) {
			forgotten++
		} else {
			c.world.checker.fail("invariant 9: request %s gave tasks %v and then %v", spec.Token, before, ids)
		}
	}
	// A task whose id had been promised before it was refused is among both.
	if want := max(spec.Count, len(spec.Instances)); len(ids)+failures+forgotten < want || len(ids) > want {
		c.world.checker.fail("request %s for %d tasks was answered with %d, %d failures", spec.Token, want, len(ids), failures)
	}
	c.last, c.lastIDs = &spec, slices.Compact(slices.Sorted(slices.Values(slices.Concat(before, ids))))
}

// repeat sends the last request once more: as it was, or with other parameters, which has to be refused.
func (c *customer) repeat(a Action) {
	if c.last == nil {
		return
	}
	if a.N%3 > 0 {
		c.submit(*c.last, nil)
		return
	}
	spec := *c.last
	spec.Params += "other"
	c.call("other "+spec.Token, func(ctx context.Context) error {
		_, _, err := c.world.API.Tasks.SubmitTasks(ctx, spec)
		return err
	}, func(err error) {
		c.world.mark(MarkDifferent)
		if cluster.ErrorCode(err) != cluster.CodeConflict {
			c.world.checker.fail("invariant 9: token %s was used with other parameters, and the answer is %v", spec.Token, err)
		}
	})
}

func (c *customer) start(a Action) {
	i := c.world.one(a)
	if i == nil {
		return
	}
	c.submit(operation.SubmitTasks{
		Kind: cluster.StartTask, Cluster: clusterName, TaskDefinition: c.world.family(a), Instances: []string{i.ID},
		Token: fmt.Sprint("start", a.Pick), Params: fmt.Sprint(a.Pick),
	}, nil)
}

func (c *customer) stop(a Action) {
	if len(c.tasks) > 0 {
		c.stopOne(c.tasks[a.Pick%uint64(len(c.tasks))])
	}
}

func (c *customer) stopOne(id string) {
	c.call("stop "+id, func(ctx context.Context) error {
		_, err := c.world.API.Tasks.StopTask(ctx, clusterName, id, "")
		return err
	}, func(err error) {
		if err == nil {
			c.stops[id] = true
		}
	})
}

// spam starts a task and stops it as soon as it is there, over and over.
func (c *customer) spam(a Action) {
	c.world.mark(MarkSpam)
	for n := range 5 {
		c.world.Loop.After(time.Duration(n)*time.Second, func() {
			token := fmt.Sprint("spam", a.Pick, n)
			c.submit(operation.SubmitTasks{
				Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: "small", Count: 1, Token: token, Params: token,
			}, func(ids []string) {
				for _, id := range ids {
					c.stopOne(id)
					c.stopOne(id)
				}
			})
		})
	}
}
