package nodegroupupgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// nodeWorld is the cluster as an update of its nodes sees it.
type nodeWorld struct {
	instances map[string]*cluster.Instance // by EC2 id
	tasks     map[string][]*cluster.Task   // that hold something, by container instance
	services  map[string]*cluster.Service  // by short key
	protected map[string]bool              // task ids
}

func newNodeWorld() *nodeWorld {
	return &nodeWorld{
		instances: map[string]*cluster.Instance{}, tasks: map[string][]*cluster.Task{},
		services: map[string]*cluster.Service{}, protected: map[string]bool{},
	}
}

func (n *Handler) world(ctx context.Context, clusterName string) (*nodeWorld, error) {
	w := newNodeWorld()
	// instances come last: one whose agent is seen away had the tasks that were seen before
	for _, prefix := range []string{state.PrefixService, state.PrefixTask, state.PrefixProtection, state.PrefixInstance} {
		if err := n.read(ctx, w, clusterName, prefix); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (n *Handler) read(ctx context.Context, w *nodeWorld, clusterName, prefix string) error {
	rows, err := n.State.List(ctx, state.Prefix(clusterName, prefix))
	for _, row := range rows {
		w.add(row, n.Clock.Now())
	}
	return cluster.Wrap(err, "listing %s", prefix)
}

// introduce takes in instances that are in service and that nobody has told of: ECS may know them, the event that said so
// being lost. Without it nothing is decided, unless ECS refuses to say.
func (n *Handler) introduce(ctx context.Context, clusterName string, auto *cluster.AutoScalingGroup, w *nodeWorld) error {
	unknown := func(i cluster.GroupInstance) bool {
		return lifecycle(i.Lifecycle) == nodegroup.InService && w.instances[i.ID] == nil
	}
	if !slices.ContainsFunc(auto.Instances, unknown) {
		return nil
	}
	ids, err := n.ECS.ListInstances(ctx, clusterName)
	if err == nil {
		known := map[string]bool{}
		for _, i := range w.instances {
			known[i.ID] = true
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return known[id] })
		err = n.api().InstancesChanged(ctx, clusterName, ids)
	}
	if err == nil && len(ids) > 0 {
		err = n.read(ctx, w, clusterName, state.PrefixInstance)
	}
	if cluster.ForGood(err) != nil {
		handler.Logger(n.Log).Warn("looking for instances that nobody has told of", "cluster", clusterName, "group", auto.Name, "error", err)
		return nil
	}
	return cluster.Wrap(err, "looking for instances of Auto Scaling group %s that nobody has told of", auto.Name)
}

func (w *nodeWorld) add(row state.Row, now time.Time) {
	switch r := row.(type) {
	case *cluster.Instance:
		if r.EC2InstanceID != "" && r.Supersedes(w.instances[r.EC2InstanceID]) {
			w.instances[r.EC2InstanceID] = r
		}
	case *cluster.Service:
		w.services[r.Short] = r
	case *cluster.Task:
		if r.Holds() {
			w.tasks[r.Instance] = append(w.tasks[r.Instance], r)
		}
	case *cluster.Protection:
		if r.Until.After(now) {
			w.protected[r.Task] = true
		}
	}
}

// member is an instance of the Auto Scaling group with what is on it.
func (w *nodeWorld) member(i *cluster.GroupInstance) nodegroup.Instance {
	out := nodegroup.Instance{ID: i.ID, Zone: i.Zone, Template: i.Template, Lifecycle: lifecycle(i.Lifecycle), Row: w.instances[i.ID]}
	if out.Row == nil {
		return out
	}
	for _, t := range w.tasks[out.Row.ID] {
		s := w.services[t.Owner]
		out.Tasks = append(out.Tasks, nodegroup.Task{
			Task: t, Daemon: s != nil && s.Strategy == cluster.Daemon, Protected: w.protected[t.ID], Why: blocks(s),
		})
	}
	return out
}

// lifecycle is a LifecycleState of Auto Scaling. Those of instances that are leaving in any way, to EC2 or to standby, count
// as on their way out.
func lifecycle(state string) nodegroup.Lifecycle {
	switch {
	case state == "InService":
		return nodegroup.InService
	case strings.HasPrefix(state, "Pending"):
		return nodegroup.Pending
	}
	return nodegroup.Terminating
}

// blocks says why a service may not let a task go, where its percentages say so, or there is no room for another.
func blocks(s *cluster.Service) string {
	if s == nil || s.Strategy == cluster.Daemon {
		return ""
	}
	if s.Blocked != nil {
		return fmt.Sprintf("no room for a replacement: %s", s.Blocked)
	}
	if least, most := s.Bounds(s.Desired); s.Running <= least && most <= s.Running {
		return fmt.Sprintf("service %s has to keep %d of its tasks RUNNING and may have %d at most", s.Name, least, most)
	}
	return ""
}

// sick are the services that have fewer healthy tasks than they should, in words by short key (N7). That most of the cluster looks
// unhealthy, and nothing is replaced for it, is no reason to go on.
func (w *nodeWorld) sick() map[string]string {
	out := map[string]string{}
	for _, s := range w.services {
		if healthy := s.Healthy(); s.Status == cluster.ServiceActive && healthy < s.Desired {
			out[s.Short] = fmt.Sprintf("service %s has %d of %d tasks healthy", s.Name, healthy, s.Desired)
		}
	}
	return out
}
