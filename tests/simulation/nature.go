package simulation

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
	"berth/tests/simulation/model"
)

// What happens to the fleet. An instance or a task that has gone meanwhile is none of our business: errors of the fleet
// say that, and nothing more.

const (
	diskAttribute = "disk"
	diskValue     = "ssd"
)

// machine is small, so that what fits is often a question.
var machine = ec2.Machine{
	Type: "sim.small", CPU: 2000, Memory: 2048, GPUs: 1, Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"},
}

// diskMachine has what the family disk needs, and more GPUs to share.
var diskMachine = ec2.Machine{
	Type: "sim.disk", CPU: 2000, Memory: 2048, GPUs: 2, Zones: []string{"us-east-1b", "us-east-1a"},
	Attributes: map[string]string{diskAttribute: diskValue},
}

func (w *World) instances() []*cluster.Instance {
	ids, err := w.AWS.ECS.ListInstances(context.Background(), clusterName)
	if err != nil {
		w.checker.fail("listing instances: %v", err)
		return nil
	}
	var all []*cluster.Instance
	for part := range slices.Chunk(ids, 100) {
		got, err := w.AWS.ECS.DescribeInstances(context.Background(), clusterName, part)
		if err != nil {
			w.checker.fail("describing instances: %v", err)
		}
		all = append(all, got...)
	}
	return all
}

// one is the instance that the action hits; where there is none it adds some.
func (w *World) one(a Action) *cluster.Instance {
	all := w.instances()
	if len(all) == 0 {
		w.addInstances(a)
		return nil
	}
	return all[a.Pick%uint64(len(all))]
}

// living are the tasks that run on the instance, on all where it is empty.
func (w *World) living(instance string) (ids []string) {
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
		m = domained(draws(a.Pick))
	}
	if _, err := w.AWS.Machines.AddInstances(clusterName, 1+a.N%2, m); err != nil {
		w.checker.fail("adding instances: %v", err)
	}
}

func (w *World) killInstance(a Action) {
	if i := w.one(a); i != nil {
		busy := len(w.living(i.ID)) > 0
		if w.AWS.Machines.KillInstance(i.ID) == nil && busy {
			w.mark(MarkNodeGone)
		}
	}
}

func (w *World) crashInstance(a Action) {
	if i := w.one(a); i != nil {
		busy := len(w.living(i.ID)) > 0
		if w.AWS.Machines.CrashInstance(i.ID) == nil && busy {
			w.mark(MarkNodeCrash)
		}
	}
}

func (w *World) disconnect(a Action) {
	if i := w.one(a); i != nil {
		_ = w.AWS.Machines.DisconnectAgent(i.ID)
	}
}

func (w *World) reconnect(a Action) {
	var away []*cluster.Instance
	for _, i := range w.instances() {
		if !i.AgentConnected {
			away = append(away, i)
		}
	}
	if len(away) == 0 {
		return
	}
	i := away[a.Pick%uint64(len(away))]
	if len(w.living(i.ID)) > 0 {
		w.mark(MarkZombie)
	}
	_ = w.AWS.Machines.ReconnectAgent(i.ID)
}

func (w *World) flapAgent(a Action) {
	i := w.one(a)
	if i == nil {
		return
	}
	for n := range 6 {
		w.Loop.After(time.Duration(n)*2*time.Second, func() {
			if n%2 == 0 {
				_ = w.AWS.Machines.DisconnectAgent(i.ID)
			} else if w.AWS.Machines.ReconnectAgent(i.ID) == nil {
				w.mark(MarkFlappingAgent)
			}
		})
	}
}

func (w *World) failZone(a Action) {
	if i := w.one(a); i != nil {
		if ids, err := w.AWS.Machines.TerminateZone(i.Zone()); err == nil && len(ids) > 1 {
			w.mark(MarkZoneLost)
		}
	}
}

func (w *World) resize(a Action) {
	if i := w.one(a); i != nil && w.AWS.Machines.ResizeInstance(i.ID, 1500, 1500) == nil {
		w.mark(MarkResized)
	}
}

// setState drains an instance or ends that: through Berth, or behind its back.
func (w *World) setState(a Action, status string) {
	if i := w.one(a); i != nil {
		w.change(a, "UpdateContainerInstancesState", map[string]any{
			"cluster": clusterName, "containerInstances": []string{i.ID}, "status": status,
		})
	}
}

// changeAttribute gives an instance the attribute that the family disk needs, or takes it away.
func (w *World) changeAttribute(a Action) {
	i := w.one(a)
	if i == nil {
		return
	}
	if len(w.living(i.ID)) > 0 {
		w.mark(MarkAttribute)
	}
	op := "PutAttributes"
	if i.Attributes[diskAttribute] != "" {
		op = "DeleteAttributes"
	}
	w.change(a, op, map[string]any{"cluster": clusterName, "attributes": []map[string]string{{
		"name": diskAttribute, "value": diskValue, "targetId": i.ID, "targetType": "container-instance",
	}}})
}

// change makes a change of an instance: through Berth's API, or behind its back.
func (w *World) change(a Action, op string, in any) {
	body, err := json.Marshal(in)
	if err != nil {
		w.checker.fail("%v", err)
		return
	}
	if a.N%2 == 0 {
		w.AWS.ECS.Endpoint().Serve(context.Background(), op, body)
		return
	}
	w.spawn(op, client, func(ctx context.Context) {
		for range 3 {
			if status, _ := w.serve(ctx, op, body); status < http.StatusInternalServerError {
				return
			}
			processOf(ctx).revive()
			if processOf(ctx).sleep(time.Second) != nil {
				return
			}
		}
	}, func(bool) {})
}

func (w *World) crashTask(a Action) {
	if alive := w.living(""); len(alive) > 0 {
		_ = w.AWS.Machines.CrashTask(alive[a.Pick%uint64(len(alive))], 1)
	}
}

func (w *World) unhealthy(a Action) {
	if alive := w.living(""); len(alive) > 0 {
		_ = w.AWS.Machines.SetHealth(alive[a.Pick%uint64(len(alive))], false)
	}
}

func (w *World) allUnhealthy(Action) {
	hit := 0
	for _, t := range w.living("") {
		if w.AWS.Machines.SetHealth(t, false) == nil {
			hit++
		}
	}
	if hit > 1 {
		w.mark(MarkUnhealthyStorm)
	}
}

// foreignTask has somebody else start a task, without asking Berth.
func (w *World) foreignTask(a Action) {
	i := w.one(a)
	if i == nil {
		return
	}
	body, err := json.Marshal(map[string]any{
		"cluster": clusterName, "containerInstances": []string{i.ID}, "startedBy": "somebody",
		"taskDefinition": families[a.Pick/7%uint64(len(families))],
	})
	if err != nil {
		w.checker.fail("%v", err)
		return
	}
	w.AWS.ECS.Endpoint().Serve(context.Background(), "StartTask", body)
}

// stopCalled checks a StopTask: Berth stops only what it started.
func (w *World) stopCalled(ecsID string) {
	w.checker.calls++
	w.spared(ecsID)
	w.drained(ecsID)
	if w.stubborn[ecsID] {
		w.mark(MarkStopIgnored)
	}
	for _, t := range w.AWS.Machines.TaskTruths(clusterName) {
		if _, ours := cluster.ParseStartedBy(t.StartedBy); t.ID == ecsID && !ours && !w.upgrades.forces(t.Instance) {
			w.checker.fail("foreign task %s was to be stopped", ecsID)
		}
	}
}

// calmHealth ends the flapping of tasks, which otherwise never come to rest.
func (w *World) calmHealth() {
	for _, t := range w.AWS.Machines.TaskTruths(clusterName) {
		if t.Alive && t.Last == cluster.TaskRunning && fateOf(definitionName(t.TaskDefinition)) != model.Sickens {
			_ = w.AWS.Machines.SetHealth(t.ID, true) // most have no health check
		}
	}
}
