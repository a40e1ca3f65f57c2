package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler/api"
	"berth/shared/operation"
	"berth/tests/simulation/coverage"
)

// An apiClient is all callers of the API. What was acknowledged to it must hold in the end.
type apiClient struct {
	world       *World
	services    []*expectedService
	taskIDs     []string        // acknowledged by SubmitTasks
	stoppedIDs  map[string]bool // whose StopTask was acknowledged
	lastRequest *operation.SubmitTasks
	answered    map[string][]string  // ids of the tasks that a token was answered with
	activated   map[string]time.Time // instances that the client has made ACTIVE, and when
	// configuration is the one acknowledged last, or nil if it is not known which one holds.
	configuration *cluster.Configuration
	configuring   bool
}

// noteActivation remembers that the client asks for an instance to be ACTIVE.
func (c *apiClient) noteActivation(id string, at time.Time) {
	if c.activated == nil {
		c.activated = map[string]time.Time{}
	}
	c.activated[id] = at
}

// An expectedService is a service as the API last acknowledged it.
type expectedService struct {
	name    string
	daemon  bool
	desired int
	exists  bool
	busy    bool
	// definition is the task definition of the last update, empty if that kept the old one.
	definition   string
	balanced     bool // registered with a target group
	external     bool // has task sets; primary is the id of the primary one, empty without one
	taskSets     []*expectedTaskSet
	primary      string
	hasProviders bool // has a capacity provider strategy
	// rules are those acknowledged last, or nil if it is not known which hold. rulesChanged means
	// that they were changed after the service was created.
	rules        *cluster.Rules
	rulesChanged bool
}

// taskDefinitions are the families of the simulation, each with another scarce resource.
var taskDefinitions = map[string]string{
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
	// No agent has the log driver that this one needs.
	"nowhere": `{"family":"nowhere","containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64,
	             "logConfiguration":{"logDriver":"splunk"}}]}`,
}

// families are the families that actions pick from. Some occur more often than others.
var families = []string{"small", "small", "big", "port", "port", "share", "gpu", "checked", "checked", "disk",
	"nowhere", "vpc", "vpc", "tied"}

// registerDefinitions registers the first revisions of all families, and then those of
// registerBrokenDefinitions.
func (w *World) registerDefinitions() {
	for _, f := range slices.Compact(slices.Sorted(slices.Values(families))) {
		w.registerDefinition(taskDefinitions[f])
	}
	w.registerBrokenDefinitions()
}

// pickFamily picks the family that the action uses.
func (w *World) pickFamily(a Action) string {
	f := families[a.Pick%uint64(len(families))]
	if f == "nowhere" {
		w.cover(coverage.Infeasible)
	}
	return f
}

// networkFor returns the network configuration of the family's tasks, or nil if they have no
// network interface of their own.
func networkFor(family string) *cluster.Network {
	if family != "vpc" {
		return nil
	}
	return &cluster.Network{Subnets: []string{"subnet-1"}}
}

// callUntilAnswered runs an operation as a client does: it repeats the call after every transient
// failure, until it is answered. An answer is a promise: what it acknowledged is checked at the
// end. A call that fails may have taken effect, so a repeated one may find its own work.
func (c *apiClient) callUntilAnswered(name string, f func(ctx context.Context) error, answered func(err error)) {
	c.world.spawn(name, clientProcess, func(ctx context.Context) {
		p := processOf(ctx)
		for {
			err := f(ctx)
			if p.dead {
				p.revive()
				err = errProcessDied
			}
			var refused *cluster.Error
			if err == nil || errors.As(err, &refused) && refused.Code != cluster.CodeThrottling {
				c.world.logf("%s: answered %v", name, err)
				answered(err)
				return
			}
			if p.suspend(3*time.Second) != nil {
				return
			}
		}
	}, func(bool) {})
}

// percentagePairs are minimumHealthyPercent and maximumPercent of services.
var percentagePairs = [][2]int{{100, 200}, {50, 100}, {0, 100}, {50, 150}, {100, 150}}

func (c *apiClient) createService(a Action, daemon bool) {
	s := &expectedService{name: fmt.Sprintf("s%d", a.Pick%5), daemon: daemon, desired: a.N, exists: true, busy: true}
	i := slices.IndexFunc(c.services, func(o *expectedService) bool { return o.name == s.name })
	if i >= 0 && (c.services[i].exists || c.services[i].busy) {
		return
	}
	spec := operation.CreateService{
		Cluster: clusterName, Name: s.name, TaskDefinition: c.world.pickFamily(a), Desired: &s.desired,
		Token: fmt.Sprint("create", a.Pick), Params: fmt.Sprint(a.Pick),
	}
	if p := percentagePairs[a.Pick%uint64(len(percentagePairs))]; p[1] != 200 {
		spec.MinHealthy, spec.MaxPercent = &p[0], &p[1]
	}
	spec.Rules = drawRules(a.Pick, daemon)
	s.rules = &spec.Rules
	if daemon {
		spec.Strategy, spec.Desired, spec.TaskDefinition = cluster.Daemon, nil,
			[]string{"checked", "checked", "disk"}[a.Pick%3]
		spec.MinHealthy, spec.MaxPercent = nil, nil
	}
	spec.Network = networkFor(spec.TaskDefinition)
	s.definition = spec.TaskDefinition
	if balancers, registries := c.world.drawBalancers(spec.TaskDefinition, a.Pick/3); len(balancers) > 0 && !daemon {
		spec.LoadBalancers, s.balanced = &balancers, true
		if len(registries) > 0 {
			spec.Registries = &registries
		}
		c.world.cover(coverage.Balanced)
	}
	c.world.logf("create %s: %d of %s, rules %s", s.name, s.desired, spec.TaskDefinition, rulesText(spec.Rules))
	c.addService(s, spec)
}

// addService creates a service and expects it from then on, in place of an older one of its name.
func (c *apiClient) addService(s *expectedService, spec operation.CreateService) {
	c.callUntilAnswered("create "+s.name, func(ctx context.Context) error {
		_, err := c.world.API.Services.CreateService(ctx, spec)
		return err
	}, func(err error) {
		s.busy = false
		if err != nil { // the old service of that name still drains, or the rules cannot be satisfied
			c.coverRefusedRules(spec.Rules, err)
			return
		}
		c.services = slices.DeleteFunc(c.services, func(o *expectedService) bool { return o.name == s.name })
		c.services = append(c.services, s)
	})
}

// pickService picks a service that exists and is not being changed. It returns nil if there is
// none.
func (c *apiClient) pickService(a Action) *expectedService {
	return c.pickServiceIf(a, func(*expectedService) bool { return true })
}

// pickServiceIf does the same among the services that a condition holds for.
func (c *apiClient) pickServiceIf(a Action, holds func(*expectedService) bool) *expectedService {
	var free []*expectedService
	for _, s := range c.services {
		if s.exists && !s.busy && holds(s) {
			free = append(free, s)
		}
	}
	if len(free) == 0 {
		return nil
	}
	return free[a.Pick%uint64(len(free))]
}

// updateService changes a service and calls done when that is acknowledged. The change may be
// refused because of the service's rules, though an earlier attempt has taken effect.
func (c *apiClient) updateService(s *expectedService, change operation.UpdateService, done func()) {
	change.Cluster, change.Name = clusterName, s.name
	c.changeService(s, func(ctx context.Context) error {
		_, err := c.world.API.Services.UpdateService(ctx, change)
		return err
	}, done)
}

func (c *apiClient) changeService(s *expectedService, f func(ctx context.Context) error, done func()) {
	s.busy = true
	c.callUntilAnswered("change "+s.name, f, func(err error) {
		s.busy = false
		switch {
		case err == nil:
			done()
		case cluster.ErrorCode(err) == cluster.CodeInvalidParameter:
			c.world.cover(coverage.RulesRefused)
			s.desired, s.rules = unknownCount, nil
		default:
			c.world.checker.Fail("invariant 9: service %s was acknowledged, and changing it fails: %v", s.name, err)
		}
	})
}

// unknownCount is the desired count of a service after a refused change that an earlier attempt may
// have made.
const unknownCount = -1

func (c *apiClient) scaleService(a Action) {
	if s := c.pickService(a); s != nil && !s.daemon {
		c.updateService(s, operation.UpdateService{Desired: &a.N}, func() { s.desired = a.N })
	}
}

func (c *apiClient) changePercentages(a Action) {
	if s := c.pickService(a); s != nil && !s.daemon {
		p := percentagePairs[a.N%len(percentagePairs)]
		c.updateService(s, operation.UpdateService{MinHealthy: &p[0], MaxPercent: &p[1]}, func() {})
	}
}

func (c *apiClient) deleteService(a Action) {
	s := c.pickService(a)
	if s == nil {
		return
	}
	s.busy = true
	c.callUntilAnswered("delete "+s.name, func(ctx context.Context) error {
		_, err := c.world.API.Services.DeleteService(ctx, clusterName, s.name, true)
		return err
	}, func(err error) {
		s.busy, s.exists = false, false
		// An earlier attempt may have deleted it, unknown to the caller.
		if err != nil && cluster.ErrorCode(err) != cluster.CodeServiceNotActive {
			c.world.checker.Fail("invariant 9: service %s was acknowledged, and deleting it fails: %v", s.name, err)
		}
	})
}

func (c *apiClient) runTask(a Action, wait string) {
	c.submitTasks(operation.SubmitTasks{
		Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: c.world.pickFamily(a), Count: 1 + a.N%3,
		Wait:  wait,
		Rules: drawTaskRules(a.Pick),
		Token: fmt.Sprint("run", a.Pick), Params: fmt.Sprint(a.Pick),
	}, nil)
}

func (w *World) runWaitingTask(a Action) {
	w.client.runTask(a, []string{api.WaitForever, "5m"}[a.N%2])
}

// submitTasks requests tasks; then, which may be nil, gets their ids.
func (c *apiClient) submitTasks(spec operation.SubmitTasks, then func(ids []string)) {
	spec.Network = networkFor(spec.TaskDefinition)
	c.callUntilAnswered("run "+spec.Token, func(ctx context.Context) error {
		tasks, failures, err := c.world.API.Tasks.SubmitTasks(ctx, spec)
		if err != nil {
			return err
		}
		if processOf(ctx).dead {
			return errProcessDied
		}
		var ids []string
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
		c.checkAnswer(spec, ids, len(failures))
		c.taskIDs = append(c.taskIDs, ids...)
		if then != nil {
			then(ids)
		}
		return nil
	}, func(error) {})
}

// checkAnswer checks that a request was answered in full, and that the same clientToken gave the
// same tasks again, except those whose rows have expired.
func (c *apiClient) checkAnswer(spec operation.SubmitTasks, ids []string, failures int) {
	before := c.answered[spec.Token] // other requests may have been answered since then
	expired := 0
	for _, id := range before {
		if slices.Contains(ids, id) {
			c.world.cover(coverage.Repeated)
		} else if c.world.checker.HasExpired(id) {
			expired++
		} else {
			c.world.checker.Fail("invariant 9: request %s was answered with tasks %v and then %v", spec.Token, before,
				ids)
		}
	}
	// A refused task whose id was acknowledged before is in both.
	if want := max(spec.Count, len(spec.Instances)); len(ids)+failures+expired < want || len(ids) > want {
		c.world.checker.Fail("request %s for %d tasks was answered with %d, %d failures", spec.Token, want, len(ids),
			failures)
	}
	if c.answered == nil {
		c.answered = map[string][]string{}
	}
	c.lastRequest = &spec
	c.answered[spec.Token] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(before, ids))))
}

// repeatRequest sends the last request again: unchanged, or with other parameters, which must be
// refused.
func (c *apiClient) repeatRequest(a Action) {
	if c.lastRequest == nil {
		return
	}
	if a.N%3 > 0 {
		c.submitTasks(*c.lastRequest, nil)
		return
	}
	spec := *c.lastRequest
	spec.Params += "other"
	c.callUntilAnswered("other "+spec.Token, func(ctx context.Context) error {
		_, _, err := c.world.API.Tasks.SubmitTasks(ctx, spec)
		return err
	}, func(err error) {
		c.world.cover(coverage.Different)
		if cluster.ErrorCode(err) != cluster.CodeConflict {
			c.world.checker.Fail("invariant 9: token %s was used with other parameters, and the answer is %v",
				spec.Token, err)
		}
	})
}

func (c *apiClient) startTask(a Action) {
	i := c.world.pickInstance(a)
	if i == nil {
		return
	}
	c.submitTasks(operation.SubmitTasks{
		Kind: cluster.StartTask, Cluster: clusterName, TaskDefinition: c.world.pickFamily(a), Instances: []string{i.ID},
		Token: fmt.Sprint("start", a.Pick), Params: fmt.Sprint(a.Pick),
	}, nil)
}

func (c *apiClient) stopTask(a Action) {
	if len(c.taskIDs) > 0 {
		c.stopTaskByID(c.taskIDs[a.Pick%uint64(len(c.taskIDs))])
	}
}

func (c *apiClient) stopTaskByID(id string) {
	c.callUntilAnswered("stop "+id, func(ctx context.Context) error {
		_, err := c.world.API.Tasks.StopTask(ctx, clusterName, id, "")
		return err
	}, func(err error) {
		if err == nil {
			c.stoppedIDs[id] = true
		}
	})
}

// startAndStop starts a task and stops it as soon as it exists, over and over.
func (c *apiClient) startAndStop(a Action) {
	c.world.cover(coverage.Spam)
	for n := range 5 {
		c.world.Loop.After(time.Duration(n)*time.Second, func() {
			token := fmt.Sprint("spam", a.Pick, n)
			c.submitTasks(operation.SubmitTasks{
				Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: "small", Count: 1, Token: token,
				Params: token,
			}, func(ids []string) {
				for _, id := range ids {
					c.stopTaskByID(id)
					c.stopTaskByID(id)
				}
			})
		})
	}
}
