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
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/invariant"
	"berth/tests/simulation/model"
)

// Actions on deployments: new revisions, good and broken ones, circuit breakers, stops, protection.

// newRevisions are what services are updated to. Services of the family vpc are only forced to
// deploy, because other families have no network configuration.
var newRevisions = []string{
	"small:2", "small:1", "checked:2", "checked:1", "port:1", "big:1", "checked:2", invariant.BrokenFamily + ":1",
	invariant.UnhealthyFamily + ":1", invariant.BrokenFamily + ":1",
}

// applyFamilyOutcome makes tasks of a broken family fail.
func (w *World) applyFamilyOutcome(i ecs.StartInfo, b *ecs.Behaviour) {
	switch invariant.OutcomeOf(definitionName(i.TaskDefinition)) {
	case model.NeverRun:
		b.FailStart = "CannotPullContainerError: no such image"
	case model.BecomeUnhealthy:
		b.HealthyAfter, b.RunFor = 100*time.Hour, 0
		b.Latency = min(max(b.Latency, 2*time.Second), 10*time.Second)
		w.Loop.After(b.Latency+time.Second, func() {
			if w.AWS.Machines.SetHealth(i.TaskID, false) == nil {
				w.cover(coverage.Sick)
			}
		})
	}
}

// definitionName returns family:revision of a task definition's name or ARN.
func definitionName(s string) string { return s[strings.LastIndex(s, "/")+1:] }

// deployService starts a deployment: of another revision, or a forced one.
func (c *apiClient) deployService(a Action) {
	s := c.pickService(a)
	if s == nil || s.external {
		return
	}
	change := operation.UpdateService{TaskDefinition: newRevisions[a.Pick/5%uint64(len(newRevisions))]}
	if s.daemon {
		change.TaskDefinition = []string{"checked:2", "checked:1", "disk:2", "disk:1",
			invariant.BrokenFamily + ":1"}[a.Pick/5%5]
	}
	if s.balanced && !strings.HasPrefix(s.definition, "vpc") {
		change.TaskDefinition = []string{"port:2", "port:1", "port:2", invariant.BrokenFamily + "port:1"}[a.Pick/5%4]
	}
	if a.N%4 == 0 || strings.HasPrefix(s.definition, "vpc") {
		change = operation.UpdateService{Force: true}
	}
	if !s.daemon && a.N == 3 { // an update may change the desired count, too
		change.Desired = new(int(a.Pick/11) % 8)
	}
	c.world.logf("deploy %s: %s", s.name, jsonText(change))
	c.startDeployment(s, change)
}

// startDeployment sends an update that starts a deployment.
func (c *apiClient) startDeployment(s *expectedService, change operation.UpdateService) {
	change.Cluster, change.Name = clusterName, s.name
	s.busy = true
	c.callUntilAnswered("deploy "+s.name, func(ctx context.Context) error {
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
			c.world.cover(coverage.Deployed)
		case code == cluster.CodeInvalidParameter: // the new revision cannot satisfy the service's rules
			s.desired, s.rules = unknownCount, nil
		default:
			c.world.checker.Fail("invariant 9: service %s was acknowledged, and updating it by %+v fails: %v", s.name,
				change, err)
		}
	})
}

// callECS sends a request to the ECS API. A refusal is returned as a [cluster.Error].
func (c *apiClient) callECS(ctx context.Context, op string, in map[string]any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	status, answer := c.world.serveAPI(ctx, op, body)
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

// circuitBreakers are settings as UpdateService takes them.
var circuitBreakers = []map[string]any{
	{"enable": true, "rollback": true},
	{"enable": true, "rollback": true, "thresholdConfiguration": map[string]any{"type": "COUNT", "value": 2}},
	{"enable": true, "rollback": false, "thresholdConfiguration": map[string]any{"type": "COUNT", "value": 4}},
	{"enable": true, "rollback": true, "resetOnHealthyTask": false,
		"thresholdConfiguration": map[string]any{"type": "UNBOUNDED_PERCENT", "value": 50}},
	{"enable": true, "rollback": true, "thresholdConfiguration": map[string]any{"type": "BOUNDED_PERCENT",
		"value": 100}},
	{"enable": false, "rollback": false},
}

// changeDeploymentSettings changes how a service is deployed, without a deployment.
func (c *apiClient) changeDeploymentSettings(a Action) {
	s := c.pickService(a)
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
		in["deploymentConfiguration"] = map[string]any{"deploymentCircuitBreaker": circuitBreakers[a.Pick/5%uint64(len(circuitBreakers))]}
	}
	c.updateSettings(s, in, func() {})
}

// updateSettings sends an UpdateService and calls done when it is acknowledged. A refusal of the
// parameters is no failure: they may contradict earlier ones.
func (c *apiClient) updateSettings(s *expectedService, in map[string]any, done func()) {
	c.world.logf("update settings of %s: %v", s.name, in)
	in["cluster"] = clusterName
	s.busy = true
	c.callUntilAnswered("update settings of "+s.name, func(ctx context.Context) error {
		return c.callECS(ctx, "UpdateService", in)
	}, func(err error) {
		s.busy = false
		switch {
		case err == nil:
			done()
		case cluster.ErrorCode(err) != cluster.CodeInvalidParameter:
			c.world.checker.Fail("invariant 9: service %s was acknowledged, and updating it by %v fails: %v", s.name,
				in, err)
		}
	})
}

// stopDeployment stops and rolls back a service's deployment, which may be over meanwhile.
func (c *apiClient) stopDeployment(a Action) {
	s := c.pickService(a)
	if s == nil {
		return
	}
	c.stopCurrentDeployment(s, cluster.StopRollback)
}

// stopCurrentDeployment stops the current deployment of a service if it is in progress.
func (c *apiClient) stopCurrentDeployment(s *expectedService, how cluster.StopType) {
	row, ok := c.world.serviceRow(s.name)
	if !ok || row.Release == nil || row.Release.Status.HasEnded() {
		return
	}
	arn := fmt.Sprintf("arn:aws:ecs:us-east-1:123456789012:service-deployment/%s/%s/%s", clusterName, s.name,
		row.Release.ID)
	c.world.checker.RequestedStops[row.Release.ID+string(how)] = true
	c.callUntilAnswered("stop the deployment of "+s.name, func(ctx context.Context) error {
		return c.callECS(ctx, "StopServiceDeployment", map[string]any{"serviceDeploymentArn": arn, "stopType": how})
	}, func(err error) {
		if err == nil {
			c.world.cover(coverage.StopRequested)
		}
	})
}

// protectTasks protects some tasks of a service for minutes, or ends their protection.
func (c *apiClient) protectTasks(a Action) {
	s := c.pickService(a)
	if s == nil {
		return
	}
	var ids []string
	for n, t := range c.world.runningTasksOf(s) {
		if n < 3 && !s.daemon {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	in := map[string]any{"cluster": clusterName, "tasks": ids, "protectionEnabled": a.N%4 > 0}
	if a.N%4 > 0 {
		in["expiresInMinutes"] = 1 + int(a.Pick/5%30)
	}
	c.callUntilAnswered("protect tasks of "+s.name, func(ctx context.Context) error {
		return c.callECS(ctx,
			"UpdateTaskProtection", in)
	}, func(err error) {
		if err == nil {
			c.world.cover(coverage.Protected)
		}
	})
}

// replaceBrokenRevisions deploys working revisions in place of broken ones that no circuit breaker
// will end. Otherwise they would be retried forever.
func (c *apiClient) replaceBrokenRevisions() {
	for _, s := range c.services {
		row, ok := c.world.serviceRow(s.name)
		if !ok || !s.exists || s.busy {
			continue
		}
		if s.external {
			c.deleteBrokenTaskSets(s)
			continue
		}
		ends := row.Breaker.Enable && row.Deployment.State != cluster.RolloutCompleted
		if (ends || invariant.OutcomeOf(row.Deployment.TaskDefinition) == model.RunHealthy) &&
			!keepsBrokenRevision(row) {
			continue
		}
		good := "small:2"
		if s.balanced {
			good = "port:2"
		}
		if s.daemon {
			good = "checked:2"
		}
		c.world.logf("replace the broken revision of %s: %s", s.name, good)
		c.world.cover(coverage.MendedRevision)
		c.startDeployment(s, operation.UpdateService{TaskDefinition: good})
	}
}

// keepsBrokenRevision reports whether a broken revision completed early and still has tasks beside
// those of a newer one.
func keepsBrokenRevision(s *cluster.Service) bool {
	return slices.ContainsFunc(s.Older, func(d cluster.Deployment) bool {
		return d.State == cluster.RolloutCompleted && invariant.OutcomeOf(d.TaskDefinition) != model.RunHealthy
	})
}

// registerBrokenDefinitions registers the broken families, and second revisions of working ones.
func (w *World) registerBrokenDefinitions() {
	bad := map[string]string{
		invariant.BrokenFamily: `{"family":"broken","containerDefinitions":[{"name":"main","image":"i","cpu":128,"memory":128}]}`,
		invariant.UnhealthyFamily: `{"family":"sick","containerDefinitions":[{"name":"main","image":"i","cpu":128,"memory":128,
		             "healthCheck":{"command":["CMD","false"]}}]}`,
	}
	good := []string{taskDefinitions["small"], taskDefinitions["checked"], taskDefinitions["disk"],
		taskDefinitions["port"]}
	for _, text := range append(good, bad[invariant.BrokenFamily], bad[invariant.UnhealthyFamily],
		strings.Replace(taskDefinitions["port"], `"port"`, `"brokenport"`, 1)) {
		w.registerDefinition(text)
	}
}
