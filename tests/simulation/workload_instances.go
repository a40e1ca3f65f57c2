package simulation

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/invariant"
	"berth/tests/simulation/model"
)

// Actions on instances and tasks behind Berth's back. The simulated AWS returns an error only if
// the instance or task is gone meanwhile; such errors are ignored.

const (
	diskAttribute = "disk"
	diskValue     = "ssd"
)

// machine is small, so that tasks often do not fit.
var machine = ec2.Machine{
	Type: "sim.small", CPU: 2000, Memory: 2048, GPUs: 1, Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"},
}

// diskMachine has the attribute that the family disk needs, and more GPUs to share.
var diskMachine = ec2.Machine{
	Type: "sim.disk", CPU: 2000, Memory: 2048, GPUs: 2, Zones: []string{"us-east-1b", "us-east-1a"},
	Attributes: map[string]string{diskAttribute: diskValue},
}

func (w *World) instances() []*cluster.Instance {
	ids, err := w.AWS.ECS.ListInstances(context.Background(), clusterName)
	if err != nil {
		w.checker.Fail("listing instances: %v", err)
		return nil
	}
	var all []*cluster.Instance
	for part := range slices.Chunk(ids, 100) {
		got, err := w.AWS.ECS.DescribeInstances(context.Background(), clusterName, part)
		if err != nil {
			w.checker.Fail("describing instances: %v", err)
		}
		all = append(all, got...)
	}
	return all
}

// pickInstance picks the instance that the action hits. If there is none, it adds some and returns
// nil.
func (w *World) pickInstance(a Action) *cluster.Instance {
	all := w.instances()
	if len(all) == 0 {
		w.addInstances(a)
		return nil
	}
	return all[a.Pick%uint64(len(all))]
}

// runningTasks returns the tasks that run on the instance, or on all instances if it is empty.
func (w *World) runningTasks(instance string) (ids []string) {
	for _, t := range w.AWS.Machines.TaskTruths(clusterName) {
		if t.Alive && t.Last == cluster.TaskRunning && (instance == "" || t.Instance == instance) {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

func (w *World) addInstances(a Action) {
	m := machine
	switch a.Pick % 6 {
	case 0, 3:
		m = diskMachine
	case 1, 2, 4:
		m = drawMachine(newDraw(a.Pick))
	}
	if _, err := w.AWS.Machines.AddInstances(clusterName, 1+a.N%2, m); err != nil {
		w.checker.Fail("adding instances: %v", err)
	}
}

func (w *World) killInstance(a Action) {
	if i := w.pickInstance(a); i != nil {
		busy := len(w.runningTasks(i.ID)) > 0
		if w.AWS.Machines.KillInstance(i.ID) == nil && busy {
			w.cover(coverage.NodeGone)
		}
	}
}

func (w *World) crashInstance(a Action) {
	if i := w.pickInstance(a); i != nil {
		busy := len(w.runningTasks(i.ID)) > 0
		if w.AWS.Machines.CrashInstance(i.ID) == nil && busy {
			w.cover(coverage.NodeCrash)
		}
	}
}

func (w *World) disconnectAgent(a Action) {
	if i := w.pickInstance(a); i != nil {
		_ = w.AWS.Machines.DisconnectAgent(i.ID)
	}
}

func (w *World) reconnectAgent(a Action) {
	var disconnected []*cluster.Instance
	for _, i := range w.instances() {
		if !i.AgentConnected {
			disconnected = append(disconnected, i)
		}
	}
	if len(disconnected) == 0 {
		return
	}
	i := disconnected[a.Pick%uint64(len(disconnected))]
	if len(w.runningTasks(i.ID)) > 0 {
		w.cover(coverage.Zombie)
	}
	_ = w.AWS.Machines.ReconnectAgent(i.ID)
}

func (w *World) flapAgent(a Action) {
	i := w.pickInstance(a)
	if i == nil {
		return
	}
	for n := range 6 {
		w.Loop.After(time.Duration(n)*2*time.Second, func() {
			if n%2 == 0 {
				_ = w.AWS.Machines.DisconnectAgent(i.ID)
			} else if w.AWS.Machines.ReconnectAgent(i.ID) == nil {
				w.cover(coverage.FlappingAgent)
			}
		})
	}
}

func (w *World) failZone(a Action) {
	if i := w.pickInstance(a); i != nil {
		if ids, err := w.AWS.Machines.TerminateZone(i.Zone(), ""); err == nil && len(ids) > 1 {
			w.cover(coverage.ZoneLost)
		}
	}
}

func (w *World) shrinkInstance(a Action) {
	if i := w.pickInstance(a); i != nil && w.AWS.Machines.ResizeInstance(i.ID, 1500, 1500) == nil {
		w.cover(coverage.Resized)
	}
}

// setInstanceStatus drains or activates an instance.
func (w *World) setInstanceStatus(a Action, status string) {
	if i := w.pickInstance(a); i != nil {
		if status == string(cluster.InstanceActive) {
			w.client.noteActivation(i.ID, w.Loop.Now())
		}
		w.changeInstance(a, "UpdateContainerInstancesState", map[string]any{
			"cluster": clusterName, "containerInstances": []string{i.ID}, "status": status,
		})
	}
}

// changeAttribute adds or removes the attribute that the family disk needs.
func (w *World) changeAttribute(a Action) {
	i := w.pickInstance(a)
	if i == nil {
		return
	}
	if len(w.runningTasks(i.ID)) > 0 {
		w.cover(coverage.Attribute)
	}
	op := "PutAttributes"
	if i.Attributes[diskAttribute] != "" {
		op = "DeleteAttributes"
	}
	w.changeInstance(a, op, map[string]any{"cluster": clusterName, "attributes": []map[string]string{{
		"name": diskAttribute, "value": diskValue, "targetId": i.ID, "targetType": "container-instance",
	}}})
}

// changeInstance calls an operation that changes an instance: through Berth's API if the action's N
// is odd, else directly at ECS, behind Berth's back.
func (w *World) changeInstance(a Action, op string, in any) {
	body, err := json.Marshal(in)
	if err != nil {
		w.checker.Fail("%v", err)
		return
	}
	if a.N%2 == 0 {
		w.AWS.ECS.Endpoint().ServeOperation(context.Background(), op, body)
		return
	}
	w.spawn(op, clientProcess, func(ctx context.Context) {
		for range 3 {
			if status, _ := w.serveAPI(ctx, op, body); status < http.StatusInternalServerError {
				return
			}
			processOf(ctx).revive()
			if processOf(ctx).suspend(time.Second) != nil {
				return
			}
		}
	}, func(bool) {})
}

func (w *World) crashTask(a Action) {
	if alive := w.runningTasks(""); len(alive) > 0 {
		_ = w.AWS.Machines.CrashTask(alive[a.Pick%uint64(len(alive))], 1)
	}
}

func (w *World) makeUnhealthy(a Action) {
	if alive := w.runningTasks(""); len(alive) > 0 {
		_ = w.AWS.Machines.SetHealth(alive[a.Pick%uint64(len(alive))], false)
	}
}

func (w *World) makeAllUnhealthy(Action) {
	hit := 0
	for _, t := range w.runningTasks("") {
		if w.AWS.Machines.SetHealth(t, false) == nil {
			hit++
		}
	}
	if hit > 1 {
		w.cover(coverage.UnhealthyStorm)
	}
}

// startForeignTask starts a task at ECS without Berth.
func (w *World) startForeignTask(a Action) {
	i := w.pickInstance(a)
	if i == nil {
		return
	}
	body, err := json.Marshal(map[string]any{
		"cluster": clusterName, "containerInstances": []string{i.ID}, "startedBy": "somebody",
		"taskDefinition": families[a.Pick/7%uint64(len(families))],
	})
	if err != nil {
		w.checker.Fail("%v", err)
		return
	}
	w.AWS.ECS.Endpoint().ServeOperation(context.Background(), "StartTask", body)
}

// checkStopTask checks a call of StopTask: Berth stops only tasks that it started.
func (w *World) checkStopTask(ecsID string) {
	w.checker.CallCount++
	w.checkHealthyTaskKept(ecsID)
	w.checkDrained(ecsID)
	if w.ignoringStop[ecsID] {
		w.cover(coverage.StopIgnored)
	}
	if t, ok := w.AWS.Machines.FindTaskTruth(clusterName, ecsID); ok {
		if _, ours := cluster.ParseStartedBy(t.StartedBy); !ours && !w.upgrade.mayStopByForce(t.Instance) {
			w.checker.Fail("Berth stops foreign task %s", ecsID)
		}
	}
}

// endUnhealthiness makes tasks healthy, because flapping tasks never come to rest.
func (w *World) endUnhealthiness() {
	for _, t := range w.AWS.Machines.TaskTruths(clusterName) {
		if t.Alive && t.Last == cluster.TaskRunning &&
			invariant.OutcomeOf(definitionName(t.TaskDefinition)) != model.BecomeUnhealthy {
			_ = w.AWS.Machines.SetHealth(t.ID, true) // most have no health check
		}
	}
}
