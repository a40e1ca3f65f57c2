package whatif

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/wire/berthapi"
)

// InstanceAnswer is what is on a container instance, what keeps tasks off it, and what is to become
// of it.
type InstanceAnswer struct {
	Instance         string `json:"instance,omitempty"` // empty where it has not registered
	EC2              string `json:"ec2InstanceId,omitempty"`
	Status           string `json:"status,omitempty"`
	AgentConnected   bool   `json:"agentConnected"`
	Zone             string `json:"availabilityZone,omitempty"`
	CapacityProvider string `json:"capacityProvider,omitempty"`
	// Unschedulable reports that it gets no new task, and keeps those it has.
	Unschedulable bool     `json:"unschedulable"`
	Resources     []Amount `json:"resources"`
	Tasks         []Held   `json:"tasks"`
	// Excluded are the services whose next task could not go here.
	Excluded []Exclusion `json:"excluded"`
	// Scaling is what managed scaling says of it, Upgrade the update of its node group; nil where
	// there is none.
	Scaling *Scaled   `json:"managedScaling,omitempty"`
	Upgrade *Upgraded `json:"update,omitempty"`
}

// Amount is one resource: CPU units, MiB, GPUs, or a metric.
type Amount struct {
	Name  string  `json:"name"`
	Total float64 `json:"total"`
	Free  float64 `json:"free"`
}

// Held is a task on the instance.
type Held struct {
	Task           string     `json:"task"`
	Service        string     `json:"service,omitempty"`
	Status         string     `json:"status"`
	Daemon         bool       `json:"daemon,omitempty"`
	Foreign        bool       `json:"foreign,omitempty"`
	ProtectedUntil *time.Time `json:"protectedUntil,omitempty"`
}

// Exclusion is what keeps a service's tasks off the instance.
type Exclusion struct {
	Service string               `json:"service"`
	Refused []berthapi.Rejection `json:"refused"`
	Text    string               `json:"text"`
}

// Scaled is why managed scaling does not take the instance, or may.
type Scaled struct {
	Provider  string `json:"capacityProvider"`
	Group     string `json:"autoScalingGroup"`
	Lifecycle string `json:"lifecycleState"`
	Protected bool   `json:"protectedFromScaleIn"`
	Why       string `json:"why"`
	// Consolidation is what consolidation would do with it, on or off; empty where it has nothing
	// to move.
	Consolidation string `json:"consolidation,omitempty"`
}

// Upgraded is how far an update in progress is with the instance.
type Upgraded struct {
	NodeGroup string     `json:"nodegroup"`
	ID        string     `json:"id"`
	Phase     string     `json:"phase"`
	Step      string     `json:"step,omitempty"` // empty where nothing is done with the instance now
	Since     *time.Time `json:"since,omitempty"`
	Waiting   string     `json:"waiting,omitempty"`
}

// WhyInstance explains one instance, by its id, its ARN or EC2's id. k is nil where only the
// snapshot is known. The snapshot is as before when it returns.
func WhyInstance(snap *snapshot.Snapshot, k *Capacity, id string, now time.Time) (*InstanceAnswer, error) {
	id = cluster.LastPart(id)
	out := &InstanceAnswer{Resources: []Amount{}, Tasks: []Held{}, Excluded: []Exclusion{}}
	v := instanceOf(snap, id)
	if v != nil {
		w := newWorld(snap)
		w.describe(out, v, now)
		if err := w.exclusions(out, v); err != nil {
			return nil, err
		}
		id = cmp.Or(v.EC2InstanceID, v.ID)
	}
	if k != nil {
		k.explain(snap, out, id, now)
	}
	if v == nil && out.Scaling == nil && out.Upgrade == nil {
		return nil, &NotFound{"instance", id, slices.Collect(maps.Keys(snap.Instances))}
	}
	return out, nil
}

// instanceOf is the instance by its id, or the one that registered last of those with EC2's.
func instanceOf(snap *snapshot.Snapshot, id string) (found *snapshot.InstanceView) {
	for _, v := range snap.Instances {
		switch {
		case v.Instance == nil:
		case v.ID == id:
			return v
		case v.EC2InstanceID == id && (found == nil || v.RegisteredAt > found.RegisteredAt):
			found = v
		}
	}
	return found
}

func (w *world) describe(a *InstanceAnswer, v *snapshot.InstanceView, now time.Time) {
	a.Instance, a.EC2, a.Status, a.AgentConnected = v.ID, v.EC2InstanceID, string(v.Status), v.AgentConnected
	a.Zone, a.CapacityProvider = v.Zone(), v.CapacityProvider()
	if v.IsDeregistered() {
		return
	}
	_, a.Unschedulable = v.Attributes[cluster.AttributeUnschedulable]
	a.Resources = append(a.Resources,
		Amount{"CPU", float64(v.Registered.CPU) / cluster.CPUUnit, float64(v.CPU) / cluster.CPUUnit},
		Amount{"MEMORY", float64(v.Registered.Memory), float64(v.Memory)})
	if n := len(v.Registered.GPUs); n > 0 {
		free := 0
		for _, g := range v.GPUs {
			free += g
		}
		a.Resources = append(a.Resources, Amount{"GPU", float64(n),
			float64(free)/cluster.WholeGPU - float64(v.Unpinned)})
	}
	if v.Registered.ENIs != nil && v.ENIs != math.MaxInt {
		a.Resources = append(a.Resources, Amount{"ENI", float64(*v.Registered.ENIs), float64(v.ENIs)})
	}
	for _, t := range v.Tasks {
		s := w.snap.Services[t.Service]
		held := Held{Task: t.ID, Service: t.Service, Status: string(t.Status()), Foreign: t.Foreign,
			Daemon: s != nil && s.Strategy == cluster.Daemon}
		if p := w.snap.Protection(t.Owner, t.ID); p != nil && p.Until.After(now) {
			held.ProtectedUntil = &p.Until
		}
		a.Tasks = append(a.Tasks, held)
	}
	slices.SortFunc(a.Tasks, func(x, y Held) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service),
			cmp.Compare(x.Task, y.Task))
	})
}

// exclusions asks for one more task of each service.
func (w *world) exclusions(a *InstanceAnswer, v *snapshot.InstanceView) error {
	if v.IsDeregistered() {
		return nil
	}
	services, err := w.services()
	if err != nil {
		return err
	}
	for _, s := range services {
		why := w.engine.WhyNot(placement.Request{Spec: s.Spec, Count: 1, Target: s.Target + 1}, v.ID)
		if len(why) > 0 {
			a.Excluded = append(a.Excluded, Exclusion{s.Name, rejectionsOf(why), reasons(why)})
		}
	}
	return nil
}

// explain adds what the instance's Auto Scaling group has to say, by EC2's id.
func (k *Capacity) explain(snap *snapshot.Snapshot, a *InstanceAnswer, ec2 string, now time.Time) {
	for _, g := range k.Groups {
		at := slices.IndexFunc(g.Instances, func(i cluster.GroupInstance) bool { return i.ID == ec2 })
		if at < 0 {
			continue
		}
		i := &g.Instances[at]
		a.EC2, a.Zone = i.ID, cmp.Or(a.Zone, i.Zone)
		for _, name := range slices.Sorted(maps.Keys(k.Providers)) {
			if p := k.Providers[name]; p.Group == g.Name && !p.HasFailedCreation() {
				a.Scaling = &Scaled{Provider: name, Group: g.Name, Lifecycle: i.Lifecycle, Protected: i.Protected}
				k.verdict(snap, a.Scaling, p, ec2, now)
			}
		}
		if of := k.nodeGroupOf(g.Name); of != nil {
			a.Upgrade = upgraded(k.Updates[of.Name], ec2)
		}
	}
}

func (k *Capacity) verdict(snap *snapshot.Snapshot, a *Scaled, p *cluster.CapacityProvider, ec2 string, now time.Time) {
	in := k.decidedOn(snap, p, now)
	for _, v := range scaling.Decide(in).Verdicts {
		if v.EC2InstanceID == ec2 {
			a.Why = v.Why
		}
	}
	for _, c := range scaling.PlanConsolidation(in) {
		if c.EC2InstanceID == ec2 {
			a.Consolidation = c.Why
		}
	}
}

func upgraded(u *cluster.Update, ec2 string) *Upgraded {
	if u == nil || u.HasEnded() {
		return nil
	}
	out := &Upgraded{NodeGroup: u.NodeGroup, ID: u.ID, Phase: string(u.Phase), Waiting: u.WaitingFor}
	if n := u.RemovalOf(ec2); n != nil {
		out.Step = string(n.Step)
		if !n.StepSince.IsZero() {
			out.Since = &n.StepSince
		}
	}
	return out
}

// Print writes the answer for people.
func (a *InstanceAnswer) Print(w io.Writer) error {
	p := &printer{w: w}
	switch {
	case a.Instance == "":
		p.line("EC2 instance %s in %s has not registered with the cluster.", a.EC2, a.Zone)
	case a.Status == string(cluster.InstanceInactive):
		p.line("Instance %s (%s) has left the cluster.", a.Instance, cmp.Or(a.EC2, "no EC2 instance"))
	default:
		p.line("Instance %s (%s) in %s: %s.", a.Instance, cmp.Or(a.EC2, "no EC2 instance"), cmp.Or(a.Zone, "no zone"),
			a.state())
		var free []string
		for _, r := range a.Resources {
			free = append(free, fmt.Sprintf("%s %g of %g", r.Name, r.Free, r.Total))
		}
		p.line("Free: %s.", strings.Join(free, ", "))
		p.held(a.Tasks)
	}
	if s := a.Scaling; s != nil {
		p.line("Managed scaling (capacity provider %s, Auto Scaling group %s): %s.", s.Provider, s.Group, s.Why)
		if s.Consolidation != "" && s.Consolidation != s.Why {
			p.line("  Consolidation: %s.", s.Consolidation)
		}
	}
	if u := a.Upgrade; u != nil {
		doing := "it is not this instance's turn"
		if u.Step != "" {
			doing = u.Step
		}
		p.line("Update %s of node group %s, in phase %s: %s.", u.ID, u.NodeGroup, u.Phase, doing)
		if u.Waiting != "" {
			p.line("  It waits for %s.", u.Waiting)
		}
	}
	for _, x := range a.Excluded {
		p.line("No further task of service %s: %s.", x.Service, x.Text)
	}
	return p.err
}

// state is what an instance is, and is not, ready for.
func (a *InstanceAnswer) state() string {
	out := []string{a.Status}
	if !a.AgentConnected {
		out = append(out, "its agent is disconnected")
	}
	if a.Unschedulable {
		out = append(out, "unschedulable: it keeps its tasks and gets no new ones")
	}
	if a.Scaling != nil && a.Scaling.Protected {
		out = append(out, "protected from scale-in")
	}
	return strings.Join(out, ", ")
}

func (p *printer) held(tasks []Held) {
	if len(tasks) == 0 {
		p.line("It has no task.")
		return
	}
	p.line("Tasks:")
	for _, t := range tasks {
		of := "of no service"
		switch {
		case t.Foreign:
			of = "started by somebody else"
		case t.Service != "":
			of = "of service " + t.Service
		}
		if t.Daemon {
			of += ", a daemon"
		}
		if t.ProtectedUntil != nil {
			of += ", protected until " + t.ProtectedUntil.UTC().Format(time.RFC3339)
		}
		p.line("  %s %s, %s", t.Task, t.Status, of)
	}
}
