package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/ecs"
	"berth/shared/state"
	"berth/tests/simulation/model"
)

// What customers do about deployments: new revisions, good and bad ones, circuit breakers, stops, protection.

// Families whose tasks come to nothing: of the one none is ever RUNNING, of the other all are UNHEALTHY soon after.
const (
	brokenFamily = "broken"
	sickFamily   = "sick"
)

// revisions are what services are updated to. Services of the family vpc only have theirs forced: it wants a network.
var revisions = []string{
	"small:2", "small:1", "checked:2", "checked:1", "port:1", "big:1", "checked:2", brokenFamily + ":1", sickFamily + ":1", brokenFamily + ":1",
}

// fateOf is what becomes of tasks of a task definition.
func fateOf(definition string) model.Fate {
	switch {
	case strings.HasPrefix(definition, brokenFamily):
		return model.Crashes
	case strings.HasPrefix(definition, sickFamily):
		return model.Sickens
	}
	return model.Runs
}

// fated is what a task does for its family's sake.
func (w *World) fated(i ecs.StartInfo, b *ecs.Behaviour) {
	switch fateOf(definitionName(i.TaskDefinition)) {
	case model.Crashes:
		b.FailStart = "CannotPullContainerError: no such image"
	case model.Sickens:
		b.HealthyAfter, b.RunFor = 100*time.Hour, 0
		b.Latency = min(max(b.Latency, 2*time.Second), 10*time.Second)
		w.Loop.After(b.Latency+time.Second, func() {
			if w.AWS.Machines.SetHealth(i.TaskID, false) == nil {
				w.mark(MarkSick)
			}
		})
	}
}

// definitionName is family:revision of a task definition's name or ARN.
func definitionName(s string) string { return s[strings.LastIndex(s, "/")+1:] }

// deploy has a service replace its tasks: by a new revision, or forced.
func (c *customer) deploy(a Action) {
	s := c.pick(a)
	if s == nil {
		return
	}
	change := operation.UpdateService{TaskDefinition: revisions[a.Pick/5%uint64(len(revisions))]}
	if s.daemon {
		change.TaskDefinition = []string{"checked:2", "checked:1", "disk:2", "disk:1", brokenFamily + ":1"}[a.Pick/5%5]
	}
	if s.balanced && !strings.HasPrefix(s.definition, "vpc") {
		change.TaskDefinition = []string{"port:2", "port:1", "port:2", brokenFamily + "port:1"}[a.Pick/5%4]
	}
	if a.N%4 == 0 || strings.HasPrefix(s.definition, "vpc") {
		change = operation.UpdateService{Force: true}
	}
	if !s.daemon && a.N == 3 { // a scaling that comes with it is no deployment of its own
		change.Desired = new(int(a.Pick/11) % 8)
	}
	c.world.note("deploy %s: %+v", s.name, change)
	c.release(s, change)
}

// release makes a change that starts a deployment.
func (c *customer) release(s *wanted, change operation.UpdateService) {
	change.Cluster, change.Name = clusterName, s.name
	s.busy = true
	c.call("deploy "+s.name, func(ctx context.Context) error {
		_, err := c.world.API.Services.UpdateService(ctx, change)
		return err
	}, func(err error) {
		s.busy = false
		switch code := cluster.ErrorCode(err); {
		case err == nil:
			s.definition = change.TaskDefinition
			if change.Desired != nil {
				s.desired = *change.Desired
			}
			c.world.mark(MarkDeployed)
		case code == cluster.CodeInvalidParameter: // its rules cannot be kept by the new revision
			s.desired, s.rules = unknown, nil
		default:
			c.world.checker.fail("invariant 9: service %s was acknowledged, and updating it by %+v says %v", s.name, change, err)
		}
	})
}

// ask makes a request of the ECS API; what is refused is a [cluster.Error].
func (c *customer) ask(ctx context.Context, op string, in map[string]any) error {
	in["cluster"] = clusterName
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	status, answer := c.world.serve(ctx, op, body)
	var refused struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	switch {
	case status == http.StatusOK:
		return nil
	case json.Unmarshal(answer, &refused) != nil || status >= http.StatusInternalServerError:
		return fmt.Errorf("%s: %d: %.200s", op, status, answer)
	}
	return cluster.Errorf(cluster.Code(refused.Type), "%s", refused.Message)
}

// breakers are circuit breakers as UpdateService takes them.
var breakers = []map[string]any{
	{"enable": true, "rollback": true},
	{"enable": true, "rollback": true, "thresholdConfiguration": map[string]any{"type": "COUNT", "value": 2}},
	{"enable": true, "rollback": false, "thresholdConfiguration": map[string]any{"type": "COUNT", "value": 4}},
	{"enable": true, "rollback": true, "resetOnHealthyTask": false, "thresholdConfiguration": map[string]any{"type": "UNBOUNDED_PERCENT", "value": 50}},
	{"enable": true, "rollback": true, "thresholdConfiguration": map[string]any{"type": "BOUNDED_PERCENT", "value": 100}},
	{"enable": false, "rollback": false},
}

// tune changes how a service is deployed, without starting a deployment.
func (c *customer) tune(a Action) {
	s := c.pick(a)
	if s == nil {
		return
	}
	in := map[string]any{"service": s.name}
	switch {
	case a.N%4 == 0 && !s.daemon:
		in["healthCheckGracePeriodSeconds"] = []int{0, 120, 600}[a.Pick/5%3]
	case a.N == 7:
		in["deploymentConfiguration"] = map[string]any{"alarms": map[string]any{
			"alarmNames": []string{alarmName}, "enable": a.Pick/5%4 > 0, "rollback": a.Pick/5%3 > 0,
		}}
	case a.N%4 == 1 && !s.daemon:
		in["availabilityZoneRebalancing"] = []string{"ENABLED", "DISABLED"}[a.Pick/5%2]
	default:
		in["deploymentConfiguration"] = map[string]any{"deploymentCircuitBreaker": breakers[a.Pick/5%uint64(len(breakers))]}
	}
	c.world.note("tune %s: %v", s.name, in)
	s.busy = true
	c.call("tune "+s.name, func(ctx context.Context) error { return c.ask(ctx, "UpdateService", in) }, func(err error) {
		s.busy = false
		if code := cluster.ErrorCode(err); err != nil && code != cluster.CodeInvalidParameter {
			c.world.checker.fail("invariant 9: service %s was acknowledged, and tuning it by %v says %v", s.name, in, err)
		}
	})
}

// stopDeployment has a service's deployment stopped and rolled back. It may be over by then.
func (c *customer) stopDeployment(a Action) {
	s := c.pick(a)
	if s == nil {
		return
	}
	c.stopRow(s, cluster.StopRollback)
}

// stopRow has the current deployment of a service stopped, if it is under way.
func (c *customer) stopRow(s *wanted, how cluster.StopType) {
	row, ok := c.world.checker.rows[state.ServiceKey(clusterName, s.name)].(*cluster.Service)
	if !ok || row.Release == nil || row.Release.Status.HasEnded() {
		return
	}
	arn := fmt.Sprintf("arn:aws:ecs:us-east-1:123456789012:service-deployment/%s/%s/%s", clusterName, s.name, row.Release.ID)
	c.world.checker.halted[row.Release.ID+string(how)] = true
	c.call("stop the deployment of "+s.name, func(ctx context.Context) error {
		return c.ask(ctx, "StopServiceDeployment", map[string]any{"serviceDeploymentArn": arn, "stopType": how})
	}, func(err error) {
		if err == nil {
			c.world.mark(MarkStopRequested)
		}
	})
}

// protect protects some tasks of a service from being stopped, for minutes; or ends that.
func (c *customer) protect(a Action) {
	s := c.pick(a)
	if s == nil {
		return
	}
	var ids []string
	for n, t := range c.world.ranBy(s) {
		if n < 3 && !s.daemon {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	in := map[string]any{"tasks": ids, "protectionEnabled": a.N%4 > 0}
	if a.N%4 > 0 {
		in["expiresInMinutes"] = 1 + int(a.Pick/5%30)
	}
	c.call("protect tasks of "+s.name, func(ctx context.Context) error { return c.ask(ctx, "UpdateTaskProtection", in) }, func(err error) {
		if err == nil {
			c.world.mark(MarkProtected)
		}
	})
}

// mend has customers give up on what can never work and would be tried for ever: bad revisions that no circuit breaker
// will end.
func (c *customer) mend() {
	for _, s := range c.services {
		row, ok := c.world.checker.rows[state.ServiceKey(clusterName, s.name)].(*cluster.Service)
		if !ok || !s.exists || s.busy {
			continue
		}
		ends := row.Breaker.Enable && row.Deployment.State != cluster.RolloutCompleted
		if (ends || fateOf(row.Deployment.TaskDefinition) == model.Runs) && !hangsOn(row) {
			continue
		}
		good := "small:2"
		if s.balanced {
			good = "port:2"
		}
		if s.daemon {
			good = "checked:2"
		}
		c.world.note("mend %s: %s", s.name, good)
		c.world.mark(MarkMendedRevision)
		c.release(s, operation.UpdateService{TaskDefinition: good})
	}
}

// hangsOn reports that a revision which can never work was declared done early, and is there beside another yet.
func hangsOn(s *cluster.Service) bool {
	return slices.ContainsFunc(s.Older, func(d cluster.Deployment) bool {
		return d.State == cluster.RolloutCompleted && fateOf(d.TaskDefinition) != model.Runs
	})
}

// registerBad registers the task definitions that come to nothing, and second revisions of some that are well.
func (w *World) registerBad() {
	bad := map[string]string{
		brokenFamily: `{"family":"broken","containerDefinitions":[{"name":"main","image":"i","cpu":128,"memory":128}]}`,
		sickFamily: `{"family":"sick","containerDefinitions":[{"name":"main","image":"i","cpu":128,"memory":128,
		             "healthCheck":{"command":["CMD","false"]}}]}`,
	}
	good := []string{definitions["small"], definitions["checked"], definitions["disk"], definitions["port"]}
	for _, text := range append(good, bad[brokenFamily], bad[sickFamily], strings.Replace(definitions["port"], `"port"`, `"brokenport"`, 1)) {
		if status, answer := w.AWS.ECS.Endpoint().Serve(context.Background(), "RegisterTaskDefinition", []byte(text)); status != http.StatusOK {
			w.checker.fail("registering %s: %s", text, answer)
		}
	}
}
