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

	"berth/cmd/berth/listing"
	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/wire/berthapi"
)

// InstanceAnswer is the state of a container instance: its tasks, what keeps others away, and what
// managed scaling and an upgrade do with it. It may also be about an EC2 instance that has not
// registered, which has only the last two.
type InstanceAnswer struct {
	Instance         string `json:"instance,omitempty"` // empty if it has not registered
	EC2              string `json:"ec2InstanceId,omitempty"`
	Status           string `json:"status,omitempty"`
	AgentConnected   bool   `json:"agentConnected"`
	Zone             string `json:"availabilityZone,omitempty"`
	CapacityProvider string `json:"capacityProvider,omitempty"`
	// Unschedulable reports that it accepts no new tasks and keeps those it has.
	Unschedulable bool           `json:"unschedulable"`
	Resources     []Amount       `json:"resources"`
	Tasks         []InstanceTask `json:"tasks"`
	// Excluded are the services whose next task could not go here.
	Excluded []Exclusion `json:"excluded"`
	// Scaling is what managed scaling decides about it, Upgrade the update of its node group in
	// progress. Both may be nil.
	Scaling *ScalingState `json:"managedScaling,omitempty"`
	Upgrade *UpdateState  `json:"update,omitempty"`
}

// Amount is one resource: CPU units, MiB of memory, GPUs, network interfaces (ENI) or a metric. A
// task that uses half a GPU leaves half of one free, so amounts are not whole numbers. Of a metric
// that is overbooked, less than nothing is free.
type Amount struct {
	Name  string  `json:"name"`
	Total float64 `json:"total"`
	Free  float64 `json:"free"`
}

// InstanceTask is a task that holds capacity on the instance.
type InstanceTask struct {
	Task           string     `json:"task"`
	Service        string     `json:"service,omitempty"`
	Status         string     `json:"status"`
	Daemon         bool       `json:"daemon,omitempty"`
	Foreign        bool       `json:"foreign,omitempty"`
	ProtectedUntil *time.Time `json:"protectedUntil,omitempty"`
}

// Exclusion is why a service's next task would not go to the instance.
type Exclusion struct {
	Service string               `json:"service"`
	Refused []berthapi.Rejection `json:"refused"`
	Text    string               `json:"text"`
}

// ScalingState is whether managed scaling would terminate the instance, and why.
type ScalingState struct {
	Provider  string `json:"capacityProvider"`
	Group     string `json:"autoScalingGroup"`
	Lifecycle string `json:"lifecycleState"`
	Protected bool   `json:"protectedFromScaleIn"`
	Why       string `json:"why"`
	// Consolidation is what consolidation would do with it, switched on or not. It is empty for an
	// instance without tasks to move.
	Consolidation string `json:"consolidation,omitempty"`
}

// UpdateState is how far an update in progress is with the instance.
type UpdateState struct {
	NodeGroup string     `json:"nodegroup"`
	ID        string     `json:"id"`
	Phase     string     `json:"phase"`
	Step      string     `json:"step,omitempty"` // empty while nothing is done with the instance
	Since     *time.Time `json:"since,omitempty"`
	Waiting   string     `json:"waiting,omitempty"`
}

// ExplainInstance explains one instance, named by its id, its ARN or its EC2 instance id. k is nil
// if only the snapshot is known. An EC2 instance that never registered is explained by its group
// alone.
func ExplainInstance(snap *snapshot.Snapshot, k *Capacity, id string, now time.Time) (*InstanceAnswer, error) {
	id = cluster.LastPart(id)
	out := &InstanceAnswer{Resources: []Amount{}, Tasks: []InstanceTask{}, Excluded: []Exclusion{}}
	v := findInstance(snap, id)
	if v != nil {
		m := newModel(snap)
		m.describeInstance(out, v, now)
		if err := m.addExclusions(out, v); err != nil {
			return nil, err
		}
		// Auto Scaling knows members only by their EC2 instance id.
		id = cmp.Or(v.EC2InstanceID, v.ID)
	}
	if k != nil {
		k.addGroupState(snap, out, id, now)
	}
	if v == nil && out.Scaling == nil && out.Upgrade == nil {
		return nil, noInstance(snap, id)
	}
	return out, nil
}

// noInstance says that there is no instance with an id, and lists those of its kind: ECS's or EC2's.
func noInstance(snap *snapshot.Snapshot, id string) *NotFound {
	out := &NotFound{Kind: "instance", Name: id}
	ofEC2 := strings.HasPrefix(id, "i-") || strings.HasPrefix(id, "mi-")
	for _, v := range snap.Instances {
		switch {
		case v.Instance == nil || v.IsDeregistered():
		case ofEC2:
			out.Known = append(out.Known, cmp.Or(v.EC2InstanceID, v.ID))
		default:
			out.Known = append(out.Known, v.ID)
		}
	}
	return out
}

// FindInstance returns the id of the instance with an id or ARN of ECS's or EC2's, or the beginning of
// one. One that the cluster does not have is a *NotFound.
func FindInstance(snap *snapshot.Snapshot, name string) (id string, err error) {
	name = cluster.LastPart(name)
	if v := findInstance(snap, name); v != nil {
		return v.ID, nil
	}
	return "", noInstance(snap, name)
}

// findInstance returns the instance with an id of ECS's or EC2's, or with the beginning of the id of one
// instance only. Of an EC2 instance it returns the last registration. It returns nil if there is none.
func findInstance(snap *snapshot.Snapshot, id string) *snapshot.InstanceView {
	var found, short *snapshot.InstanceView
	isAmbiguous := false
	for _, v := range snap.Instances {
		switch {
		case v.Instance == nil:
		case v.ID == id:
			return v
		case v.EC2InstanceID == id:
			found = lastRegistered(found, v)
		case !listing.IsShortFor(id, v.ID) && !listing.IsShortFor(id, v.EC2InstanceID):
		case short != nil && (v.EC2InstanceID == "" || v.EC2InstanceID != short.EC2InstanceID):
			isAmbiguous = true
		default:
			short = lastRegistered(short, v)
		}
	}
	if found == nil && !isAmbiguous {
		return short
	}
	return found
}

// lastRegistered returns the one of two registrations that is younger; a may be nil.
func lastRegistered(a, b *snapshot.InstanceView) *snapshot.InstanceView {
	if a == nil || b.RegisteredAt > a.RegisteredAt {
		return b
	}
	return a
}

// describeInstance fills in the state, the resources and the tasks of an instance. An instance that
// has left the cluster keeps only its identity.
func (m *model) describeInstance(a *InstanceAnswer, v *snapshot.InstanceView, now time.Time) {
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
		// Free thousandths are added up over devices. A task that needs a whole GPU may not find
		// one even if the sum is above 1.
		free := 0
		for _, g := range v.GPUs {
			free += g
		}
		a.Resources = append(a.Resources, Amount{"GPU", float64(n),
			float64(free)/cluster.WholeGPU - float64(v.Unpinned)})
	}
	// Instances that do not report network interfaces have no limit.
	if v.Registered.ENIs != nil && v.ENIs != math.MaxInt {
		a.Resources = append(a.Resources, Amount{"ENI", float64(*v.Registered.ENIs), float64(v.ENIs)})
	}
	capacities := v.MetricCapacities(&m.snap.Configuration)
	for _, name := range slices.Sorted(maps.Keys(capacities)) {
		load := v.Load(m.snap.MetricIndex(name))
		a.Resources = append(a.Resources, Amount{name, float64(capacities[name]), float64(capacities[name] - load)})
	}
	for _, t := range v.Tasks {
		s := m.snap.Services[t.Service]
		held := InstanceTask{Task: t.ID, Service: t.Service, Status: string(t.Status()), Foreign: t.Foreign,
			Daemon: s != nil && s.Strategy == cluster.Daemon}
		if p := m.snap.Protection(t.Owner, t.ID); p.IsActive(now) {
			held.ProtectedUntil = &p.Until
		}
		a.Tasks = append(a.Tasks, held)
	}
	slices.SortFunc(a.Tasks, func(x, y InstanceTask) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service),
			cmp.Compare(x.Task, y.Task))
	})
}

// addExclusions asks placement for one more task of each service on the instance.
func (m *model) addExclusions(a *InstanceAnswer, v *snapshot.InstanceView) error {
	if v.IsDeregistered() {
		return nil
	}
	services, err := m.serviceSpecs()
	if err != nil {
		return err
	}
	for _, s := range services {
		// One task more than desired is the worst case that domain rules must allow.
		var why []cluster.Rejection
		decide.WithOwnReservation(m.snap, s.Spec.Owner, func() {
			why = m.engine.WhyNot(placement.Request{Spec: s.Spec, Count: 1, Target: s.Target + 1}, v.ID)
		})
		if len(why) > 0 {
			a.Excluded = append(a.Excluded, Exclusion{s.Name, rejectionsOf(why), describeRejections(why)})
		}
	}
	return nil
}

// addGroupState adds what managed scaling and an update do with the member of an Auto Scaling
// group.
func (k *Capacity) addGroupState(snap *snapshot.Snapshot, a *InstanceAnswer, ec2 string, now time.Time) {
	for _, g := range k.Groups {
		at := slices.IndexFunc(g.Instances, func(i cluster.GroupInstance) bool { return i.ID == ec2 })
		if at < 0 {
			continue
		}
		i := &g.Instances[at]
		a.EC2, a.Zone = i.ID, cmp.Or(a.Zone, i.Zone)
		for _, name := range slices.Sorted(maps.Keys(k.Providers)) {
			if p := k.Providers[name]; p.Group == g.Name && !p.HasFailedCreation() {
				a.Scaling = &ScalingState{Provider: name, Group: g.Name, Lifecycle: i.Lifecycle, Protected: i.Protected}
				k.addScalingVerdict(snap, a.Scaling, p, ec2, now)
			}
		}
		if of := k.nodeGroupOf(g.Name); of != nil {
			a.Upgrade = updateStateOf(k.Updates[of.Name], ec2)
		}
	}
}

// addScalingVerdict lets managed scaling decide now, and picks what it says about this instance.
func (k *Capacity) addScalingVerdict(
	snap *snapshot.Snapshot, a *ScalingState, p *cluster.CapacityProvider, ec2 string, now time.Time,
) {
	in := k.scalingInput(snap, p, now)
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

// updateStateOf returns how far an update is with the member, or nil if none is in progress.
func updateStateOf(u *cluster.Update, ec2 string) *UpdateState {
	if u == nil || u.HasEnded() {
		return nil
	}
	out := &UpdateState{NodeGroup: u.NodeGroup, ID: u.ID, Phase: string(u.Phase), Waiting: u.WaitingFor}
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
		p.printLine("EC2 instance %s in %s has not registered with the cluster.", a.EC2, a.Zone)
	case a.Status == string(cluster.InstanceInactive):
		p.printLine("Instance %s (%s) has left the cluster.", a.Instance, cmp.Or(a.EC2, "no EC2 instance"))
	default:
		p.printLine("Instance %s (%s) in %s: %s.", a.Instance, cmp.Or(a.EC2, "no EC2 instance"),
			cmp.Or(a.Zone, "no zone"),
			a.describeState())
		var free []string
		for _, r := range a.Resources {
			free = append(free, fmt.Sprintf("%s %g of %g", r.Name, r.Free, r.Total))
		}
		p.printLine("Free: %s.", strings.Join(free, ", "))
		p.printTasks(a.Tasks)
	}
	if s := a.Scaling; s != nil {
		p.printLine("Managed scaling (capacity provider %s, Auto Scaling group %s): %s.", s.Provider, s.Group, s.Why)
		if s.Consolidation != "" && s.Consolidation != s.Why {
			p.printLine("  Consolidation: %s.", s.Consolidation)
		}
	}
	if u := a.Upgrade; u != nil {
		doing := "nothing is being done with this instance yet"
		if u.Step != "" {
			doing = u.Step
		}
		p.printLine("Update %s of node group %s, in phase %s: %s.", u.ID, u.NodeGroup, u.Phase, doing)
		if u.Waiting != "" {
			p.printLine("  It waits for %s.", u.Waiting)
		}
	}
	for _, x := range a.Excluded {
		p.printLine("The next task of service %s would not go here: %s.", x.Service, x.Text)
	}
	return p.err
}

// describeState puts the instance's status into words, with all that limits its use.
func (a *InstanceAnswer) describeState() string {
	out := []string{a.Status}
	if !a.AgentConnected {
		out = append(out, "its agent is disconnected")
	}
	if a.Unschedulable {
		out = append(out, "unschedulable: it keeps its tasks and accepts no new ones")
	}
	if a.Scaling != nil && a.Scaling.Protected {
		out = append(out, "protected from scale-in")
	}
	return strings.Join(out, ", ")
}

// printTasks writes the tasks with all that keeps them from being moved: a daemon, somebody else's,
// protected.
func (p *printer) printTasks(tasks []InstanceTask) {
	if len(tasks) == 0 {
		p.printLine("It has no tasks.")
		return
	}
	p.printLine("Tasks:")
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
		p.printLine("  %s %s, %s", t.Task, t.Status, of)
	}
}
