package autoscaling

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
)

// group is an Auto Scaling group, as stored.
type group struct {
	Name              string
	Min, Max, Desired int  // instances; Min <= Desired <= Max
	Protects          bool // new instances from scale-in
	CreatedAt         time.Time
	launchSettings
	keptSettings
	Tags map[string]string
	// Own are the tags that instances do not get.
	Own        map[string]bool          `json:",omitempty"`
	Hooks      map[string]lifecycleHook // of terminations, by name
	Policies   map[string]*policy       `json:",omitempty"` // by name
	Members    []member                 // in order of launch
	Launches   int64                    // ever begun, failed ones included
	Activities []activity               // the oldest first
	// Rebalances is true unless the process AZRebalance is suspended: the group evens out its
	// zones. Moving is the instance that is launched for that.
	Rebalances bool
	Moving     string `json:",omitempty"`

	reconciling bool // reconcileLater has set a timer
}

// launchSettings say what a group launches.
type launchSettings struct {
	// Template is the launch template version, as ID:VERSION.
	Template string
	// Types are those of a mixed instances policy, in order of preference. Mixed is true where
	// there is one.
	Types []weightedType `json:",omitempty"`
	Mixed bool           `json:",omitempty"`
	// Distribution is the policy's, with defaults; nil without one, or for a group of older files.
	Distribution *distribution `json:",omitempty"`
	// Cluster and Machine, where they are set, replace what the launch template says.
	Cluster string
	Machine ec2.Machine
	Subnets string `json:",omitempty"`
}

// weightedType is an instance type that a group may launch, and its WeightedCapacity.
type weightedType struct{ Type, Weight string }

// lifecycleHook holds up terminations for a heartbeat timeout. For a termination both results,
// CONTINUE and ABANDON, let it go on.
type lifecycleHook struct {
	Heartbeat time.Duration
	Result    string
}

// member is one instance of a group.
type member struct {
	Instance   string // container instance id; empty until it has registered
	EC2, Zone  string
	Type       string // instance type
	Template   string // launch template version that it was made from
	Lifecycle  string
	Protected  bool
	LaunchedAt time.Time
	// Until is when its launch ends. Waits has the hooks that hold up its termination, which began
	// at LeavingAt, and until when each does.
	Until     time.Time
	Waits     map[string]time.Time `json:",omitempty"`
	LeavingAt time.Time
	Activity  string // that of its launch
	Silent    bool   // it never registers
	// NeverConnects reports that its agent is never connected.
	NeverConnects bool `json:"Sick"`
	// Late is how long after it is in service it registers.
	Late time.Duration `json:",omitempty"`
}

func (g *group) StoredRow() (string, string, any) { return bucket, g.Name, g }

// The states of a group's instances. A member whose Lifecycle is empty is gone; the next reconcile
// deletes it.
const (
	pending         = "Pending"
	inService       = "InService"
	terminatingWait = "Terminating:Wait"
)

// GroupSpec is the input of [Groups.AddGroup].
type GroupSpec struct {
	Name, Cluster     string
	Machine           ec2.Machine
	Min, Max, Desired int
	// Protects protects new instances from scale-in. Rebalances turns Availability Zone rebalancing
	// on.
	Protects, Rebalances bool
	// Image is the image of the launch template that is made for the group: ami-1 if empty.
	Image string
	// Tags are the group's own; instances do not get them.
	Tags map[string]string
}

// AddGroup creates an Auto Scaling group and returns its ARN.
func (e *Groups) AddGroup(s GroupSpec) (arn string, err error) {
	if _, _, _, err := s.Machine.RegisteredSize(); err != nil {
		return "", err
	}
	err = e.kernel.Change(func(now time.Time) error {
		if err := e.machines.CheckCluster(s.Cluster); err != nil {
			return err
		}
		g := &group{
			Name: s.Name, launchSettings: launchSettings{Cluster: s.Cluster, Machine: s.Machine}, Min: s.Min,
			Max: s.Max, Desired: s.Desired, Protects: s.Protects,
			Rebalances: s.Rebalances, Tags: map[string]string{}, Own: map[string]bool{},
		}
		for key, value := range s.Tags {
			g.Tags[key], g.Own[key] = value, true
		}
		if err := e.checkNewGroup(g); err != nil {
			return err
		}
		data := ec2.Data{"ImageId": cmp.Or(s.Image, "ami-1")}
		if s.Machine.CPU == 0 { // a type of EC2's, with its size
			data["InstanceType"] = s.Machine.Type
		}
		g.Template = e.templates.CreateInStep("berth/"+s.Name, data, now).String()
		e.insertGroup(g, now)
		return nil
	})
	return e.groupARN(s.Name), err
}

// checkNewGroup returns an error if the group cannot be created.
func (e *scaler) checkNewGroup(g *group) error {
	switch {
	case g.Name == "" || len(g.Name) > 255:
		return cluster.Errorf("ValidationError", "A group's name has 1 to 255 characters")
	case e.byName[g.Name] != nil:
		return cluster.Errorf("AlreadyExists",
			"AutoScalingGroup by this name already exists - A group with the name %s already exists", g.Name)
	}
	return checkSizes(g.Min, g.Max, g.Desired)
}

// checkSizes returns Auto Scaling's error if not min <= desired <= max.
func checkSizes(least, most, desired int) error {
	switch {
	case least < 0 || most < least:
		return cluster.Errorf("ValidationError", "Max bound, %d, must be greater than or equal to min bound, %d", most,
			least)
	case desired < least || desired > most:
		return cluster.Errorf("ValidationError",
			"Desired capacity:%d must be between the specified min size:%d and max size:%d", desired, least, most)
	}
	return nil
}

// insertGroup adds a group that has been checked, and launches its first instances.
func (e *scaler) insertGroup(g *group, now time.Time) {
	g.CreatedAt, g.Hooks, g.Policies = now, map[string]lifecycleHook{}, map[string]*policy{}
	if g.Tags == nil {
		g.Tags, g.Own = map[string]string{}, map[string]bool{}
	}
	e.byName[g.Name] = g
	e.reconcileGroup(g, now)
}

// reconcileGroup launches and terminates instances until the group has its desired capacity. While
// one is being moved to another zone the group may have one more. A launch that fails everywhere is
// tried again later; scale-in stops when all that is left is protected.
//
// It removes members: pointers to them are invalid afterwards.
func (e *scaler) reconcileGroup(g *group, now time.Time) {
	e.kernel.SaveRow(g)
	have := 0
	for n := range g.Members {
		m := &g.Members[n]
		if m.Instance != "" {
			switch registered, stopped := e.machines.CheckMachine(m.Instance); {
			case !registered:
				m.Lifecycle = "" // somebody else has terminated it
			case stopped && m.Lifecycle == inService:
				e.startTermination(g, m, now, "EC2's health check says that it has been stopped.")
			}
		}
		if m.isCounted() {
			have++
		}
	}
	wanted := g.Desired
	if m := g.findMember(g.Moving); m != nil && m.Lifecycle == pending {
		wanted++
	} else {
		g.Moving = ""
	}
	for ; have > wanted; have-- {
		m := e.chooseScaleInMember(g)
		if m == nil {
			break
		}
		e.startTermination(g, m, now, fmt.Sprintf("The group has %d instances, and a desired capacity of %d.", have,
			g.Desired))
	}
	g.Members = slices.DeleteFunc(g.Members, func(m member) bool {
		if m.Lifecycle == "" {
			emitMember(e, g, &m, false, now)
		}
		return m.Lifecycle == ""
	})
	for ; have < g.Desired; have++ {
		if e.launchInstance(g, now, e.zonesByNeed(g)) == "" {
			e.reconcileLater(g)
			return
		}
	}
	e.rebalanceZones(g, now, have)
}

// reconcileLater reconciles the group after the time that a repeated launch takes. One timer a
// group is enough, because it does all that is due.
func (e *scaler) reconcileLater(g *group) {
	if !g.reconciling {
		g.reconciling = true
		e.kernel.AdvanceAfter(e.launchAfter*3/2, func(now time.Time) {
			g.reconciling = false
			if e.byName[g.Name] == g {
				e.reconcileGroup(g, now)
			}
		})
	}
}

// launchInstance begins a launch in the first zone where it does not fail. It returns the
// instance's id, or "" if it fails in all of them. Each failure is an activity: a fault of one zone
// leaves one and the next zone is taken, as Auto Scaling does when a zone has no capacity.
func (e *scaler) launchInstance(g *group, now time.Time, zones []string) (ec2 string) {
	g.Launches++
	fault := e.launchFault(g)
	plan, err := e.planLaunch(g, g.Template)
	if err != nil {
		fault = LaunchFault{Reason: err.Error()}
	} else if !e.hasRoom(plan.machine.Type) {
		fault = LaunchFault{Reason: failedLaunch("VcpuLimitExceeded")}
	}
	for _, zone := range zones {
		if fault.Reason != "" && (fault.In == "" || fault.In == zone) {
			e.recordActivity(g, activity{Zone: zone, Start: now, End: now, Status: activityFailed,
				Description: "Launching a new EC2 instance", Message: fault.Reason})
			if fault.In == "" {
				return ""
			}
			continue
		}
		m := member{
			EC2:  "i-" + e.kernel.ResourceID("launch", e.kernel.NextNumber("Launches"))[:17],
			Zone: cmp.Or(fault.Zone, zone),
			Type: plan.machine.Type, Template: plan.template, Lifecycle: pending,
			Protected: g.Protects, LaunchedAt: now, Until: now.Add(e.launchAfter + fault.Slow), Silent: fault.Silent,
			NeverConnects: fault.NeverConnects,
			Late:          fault.Late,
		}
		m.Activity = e.recordActivity(g, activity{
			Zone: m.Zone, Start: now, Status: activityRuns, Description: "Launching a new EC2 instance: " + m.EC2,
			Cause: fmt.Sprintf("The group has a desired capacity of %d.", g.Desired),
		})
		g.Members = append(g.Members, m)
		e.kernel.After(m.Until.Sub(now), func() { e.finishLaunch(g, m.EC2) })
		return m.EC2
	}
	return ""
}

// findMember returns the group's instance with the id, or nil.
func (g *group) findMember(ec2 string) *member {
	i := slices.IndexFunc(g.Members, func(m member) bool { return m.EC2 == ec2 })
	if i < 0 {
		return nil
	}
	return &g.Members[i]
}

// finishLaunch ends a launch: the instance is in service and registers with its cluster. The timer
// may find the group deleted or the instance terminated, and then does nothing.
func (e *scaler) finishLaunch(g *group, ec2 string) {
	e.kernel.Advance(func(now time.Time) {
		m := g.findMember(ec2)
		if e.byName[g.Name] != g || m == nil || m.Lifecycle != pending || m.Until.After(now) {
			return
		}
		m.Lifecycle = inService
		g.completeActivity(m.Activity, now)
		emitMember(e, g, m, true, now)
		switch {
		case m.Silent:
		case m.Late > 0:
			e.kernel.After(m.Late, func() { e.registerLate(g, ec2) })
		default:
			e.registerMachine(g, m, now)
		}
		e.kernel.SaveRow(g)
		if g.Moving == ec2 {
			e.reconcileGroup(g, now)
		}
	})
}

// registerLate registers a machine some time after it came into service ([LaunchFault].Late).
func (e *scaler) registerLate(g *group, ec2 string) {
	e.kernel.Advance(func(now time.Time) {
		if m := g.findMember(ec2); e.byName[g.Name] == g && m != nil && m.Lifecycle == inService && m.Instance == "" {
			e.registerMachine(g, m, now)
			e.kernel.SaveRow(g)
		}
	})
}

// registerMachine registers a machine with its cluster. It does nothing if the cluster does not
// exist or the agent cannot read its user data: then the machine runs without ever being a
// container instance.
func (e *scaler) registerMachine(g *group, m *member, now time.Time) {
	plan, err := e.planLaunch(g, m.Template)
	if err != nil || plan.broken {
		return
	}
	id, err := e.machines.Launch(plan.cluster, plan.machine,
		ec2.Launch{Zone: m.Zone, ID: m.EC2, Image: plan.image, At: now})
	if err != nil {
		return
	}
	m.Instance = id
	if m.NeverConnects {
		e.machines.DisconnectAgent(id, now)
	}
}

// startTermination begins the termination of an instance, which hooks may hold up. One that is
// still Pending is terminated at once: nothing on it could be drained.
func (e *scaler) startTermination(g *group, m *member, now time.Time, cause string) {
	e.recordActivity(g, activity{Zone: m.Zone, Start: now, End: now, Status: activityDone,
		Description: "Terminating EC2 instance: " + m.EC2, Cause: cause})
	if len(g.Hooks) == 0 || m.Lifecycle == pending {
		g.completeActivity(m.Activity, now)
		e.terminateMember(m, now)
		return
	}
	m.Lifecycle, m.LeavingAt, m.Waits = terminatingWait, now, map[string]time.Time{}
	for name, h := range g.Hooks {
		m.Waits[name] = now.Add(h.Heartbeat)
		e.kernel.After(h.Heartbeat, func() { e.expireHooks(g, m.EC2) })
	}
	e.emitTermination(g, m, now)
}

// terminateMember terminates the machine. The caller, or the next reconcile, deletes the member.
func (e *scaler) terminateMember(m *member, now time.Time) {
	if registered, _ := e.machines.CheckMachine(m.Instance); registered {
		e.machines.Terminate(m.Instance, now)
	}
	m.Lifecycle = ""
}

// releaseHook removes a hook's hold on a termination. The termination continues if no other hook
// holds it up.
func (e *scaler) releaseHook(m *member, hook string, now time.Time) {
	delete(m.Waits, hook)
	if len(m.Waits) == 0 {
		e.terminateMember(m, now)
	}
}

// expireHooks releases the hooks whose heartbeat timeout has passed.
func (e *scaler) expireHooks(g *group, ec2 string) {
	e.kernel.Advance(func(now time.Time) {
		m := g.findMember(ec2)
		if e.byName[g.Name] != g || m == nil || m.Lifecycle != terminatingWait {
			return
		}
		for hook, until := range m.Waits {
			if !until.After(now) {
				e.releaseHook(m, hook, now)
			}
		}
		e.reconcileGroup(g, now)
	})
}

// resumeTimers sets the timers of launches and terminations that were in progress when the file was
// closed.
func (e *scaler) resumeTimers() {
	now := e.kernel.Clock.Now()
	for _, g := range e.byName {
		for _, m := range g.Members {
			if m.Lifecycle == pending {
				e.kernel.After(max(0, m.Until.Sub(now)), func() { e.finishLaunch(g, m.EC2) })
			}
			if m.Late > 0 && m.Lifecycle == inService && m.Instance == "" {
				e.kernel.After(max(0, m.Until.Add(m.Late).Sub(now)), func() { e.registerLate(g, m.EC2) })
			}
			for _, until := range m.Waits {
				e.kernel.After(max(0, until.Sub(now)), func() { e.expireHooks(g, m.EC2) })
			}
		}
		e.reconcileLater(g)
	}
}

// rebalanceZones launches an instance in a zone that has at least two fewer than another. When it
// is in service, reconcile terminates one of the fullest zone (Auto Scaling, Availability Zone
// rebalancing). If all of those are protected, rebalanceZones does nothing.
func (e *scaler) rebalanceZones(g *group, now time.Time, have int) {
	if !g.Rebalances || g.Moving != "" || have != g.Desired ||
		slices.ContainsFunc(g.Members, func(m member) bool { return m.Lifecycle == pending }) {
		return
	}
	zones, count := e.zonesByNeed(g), g.countByZone()
	first, last := zones[0], zones[len(zones)-1]
	goes := e.chooseScaleInMember(g)
	if count[last]-count[first] < 2 || goes == nil || count[goes.Zone]-count[first] < 2 {
		return
	}
	if g.Moving = e.launchInstance(g, now, zones[:1]); g.Moving == "" {
		e.reconcileLater(g)
	}
}
