package autoscaling

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
)

// LaunchFault is what goes wrong with one launch of a group. The zero value is nothing. Tests set
// faults with [Groups.SetLaunchFaults]; a user of `berth fleet` sets them with tags of the group:
//
//	berth-fleet:launch-failure     InsufficientInstanceCapacity@eu-west-1b
//	berth-fleet:launch-seconds     120
//	berth-fleet:launch-zone        eu-west-1c
//	berth-fleet:launched-machines  never-register
type LaunchFault struct {
	Reason        string        // it fails, and is tried again after a while
	In            string        // it fails in this zone only: another is taken
	Slow          time.Duration // it takes longer by so much
	Late          time.Duration // it is in service, and registers so much later
	Zone          string        // it is in this zone, even if the group has others
	Silent        bool          // the machine runs, and never registers with the cluster
	NeverConnects bool          // it registers, and its agent is never connected
}

// SetLaunchFaults makes launches go wrong, for tests. fault gets the group and the number of the
// launch, from 1; it must not call a service. If it returns the zero value, the group's tags
// decide. A nil fault ends the faults.
func (e *Groups) SetLaunchFaults(fault func(group string, n int64) LaunchFault) {
	e.kernel.WithLock(func() { e.faults = fault })
}

// The tags of a group that make its launches go wrong.
const (
	faultPrefix   = "berth-fleet:"
	tagFailure    = faultPrefix + "launch-failure"    // CODE, or CODE@ZONE
	tagExtra      = faultPrefix + "launch-seconds"    // how much longer
	tagZone       = faultPrefix + "launch-zone"       // the wrong one
	tagMachine    = faultPrefix + "launched-machines" // never-register, never-healthy
	neverRegister = "never-register"
	neverHealthy  = "never-healthy"
	maxExtra      = 24 * 60 * 60
)

// failureTexts are EC2's texts for its error codes.
var failureTexts = map[string]string{
	"InsufficientInstanceCapacity": "We currently do not have sufficient capacity in the Availability Zone you " +
		"requested.",
	"VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit allows " +
		"for the instance bucket that the specified instance type belongs to.",
	"InstanceLimitExceeded": "You have requested more instances than your current instance limit allows " +
		"for the specified instance type.",
	"InsufficientFreeAddressesInSubnet": "The specified subnet does not have enough free private IP addresses to " +
		"satisfy the request.",
	"UnauthorizedOperation": "You are not authorized to perform this operation.",
}

// checkFaultTag returns an error for a tag with the prefix of launch faults that is not one.
func checkFaultTag(key, value string) error {
	if !strings.HasPrefix(key, faultPrefix) {
		return nil
	}
	known := false
	switch key {
	case tagFailure:
		code, _, _ := strings.Cut(value, "@")
		known = failureCode.MatchString(code)
	case tagExtra:
		n, err := strconv.Atoi(value)
		known = err == nil && n >= 0 && n <= maxExtra
	case tagZone:
		known = value != ""
	case tagMachine:
		known = value == neverRegister || value == neverHealthy
	}
	if !known {
		return cluster.Errorf("ValidationError",
			"The simulated AWS does not know the tag %s=%s: berth fleet --help has those that it knows", key, value)
	}
	return nil
}

var failureCode = regexp.MustCompile(`^[A-Z][A-Za-z.]{2,63}$`)

// launchFault returns what goes wrong with the group's next launch.
func (e *scaler) launchFault(g *group) (fault LaunchFault) {
	if e.faults != nil {
		fault = e.faults(g.Name, g.Launches)
	}
	if fault != (LaunchFault{}) {
		return fault
	}
	if code, zone, _ := strings.Cut(g.Tags[tagFailure], "@"); code != "" {
		fault.In, fault.Reason = zone, failedLaunch(code)
	}
	seconds, _ := strconv.Atoi(g.Tags[tagExtra])
	fault.Slow, fault.Zone = time.Duration(seconds)*time.Second, g.Tags[tagZone]
	fault.Silent, fault.NeverConnects = g.Tags[tagMachine] == neverRegister, g.Tags[tagMachine] == neverHealthy
	return fault
}

// failedLaunch returns the message of an activity that fails for a code of EC2.
func failedLaunch(code string) string {
	text := cmp.Or(failureTexts[code], "The tag "+tagFailure+" of the group says so.")
	return "Could not launch On-Demand Instances. " + code + " - " + text + " Launching EC2 instance failed."
}

// launchPlan is the machine that a launch template describes, and the cluster that it joins.
type launchPlan struct {
	template, image string
	cluster         string
	machine         ec2.Machine
	broken          bool // its agent cannot read its configuration, and does not start
}

// planLaunch reads the launch template version, ID:VERSION, for a group. $Default and $Latest are
// resolved, so that a member remembers the number that it was made from. What the group itself says
// (machine type, cluster) wins over the template. A broken agent configuration is no error: as on
// EC2 such a machine starts and never joins.
func (e *scaler) planLaunch(g *group, template string) (p launchPlan, err error) {
	id, version, _ := strings.Cut(template, ":")
	t, data, err := e.templates.ResolveTemplate(cluster.TemplateRef{ID: id, Version: version})
	if err != nil {
		return p, err
	}
	p.template, p.image = t.String(), t.Image
	p.cluster, p.machine = g.Cluster, g.Machine
	if p.machine.Type == "" {
		if p.machine.Type = data.TextMember("InstanceType"); len(g.Types) > 0 {
			p.machine.Type = g.Types[0].Type
		} else if p.machine.Type == "" {
			if p.machine.Type, err = data.SelectType(); err != nil {
				return p, err
			}
		}
		if _, _, _, err := p.machine.RegisteredSize(); err != nil {
			return p, cluster.Errorf("InvalidParameterValue",
				"Invalid value '%.64s' for InstanceType. The simulated AWS has %s.", p.machine.Type,
				strings.Join(ec2.MachineTypes(), ", "))
		}
	}
	if of, has := ec2.ImageArchitecture(p.image), ec2.Architecture(p.machine.Type); of != "" && of != has {
		return p, cluster.Errorf("InvalidParameterValue",
			"The architecture '%s' of the specified instance type does not match the architecture '%s' of the "+
				"specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.",
			has, of)
	}
	if p.cluster == "" {
		var attributes map[string]string
		p.cluster, attributes, err = agentConfig(data.TextMember("UserData"))
		p.machine.Attributes, p.broken = attributes, err != nil
	}
	return p, nil
}

var (
	clusterVariable   = regexp.MustCompile(`(?m)\bECS_CLUSTER\s*=\s*["']?([a-zA-Z0-9_-]+)`)
	attributeVariable = regexp.MustCompile(`(?m)\bECS_INSTANCE_ATTRIBUTES\s*=\s*['"]?(\{[^}\n]*\}?)`)
	bottlerocket      = regexp.MustCompile(`(?m)^\s*cluster\s*=\s*"([^"\n]+)"`)
)

// agentConfig reads the agent's cluster, "default" if there is none, and its custom attributes from
// user data in base64. It knows lines that set ECS_CLUSTER and ECS_INSTANCE_ATTRIBUTES for
// /etc/ecs/ecs.config, and Bottlerocket's settings:
//
//	echo ECS_CLUSTER=prod >> /etc/ecs/ecs.config
//	echo 'ECS_INSTANCE_ATTRIBUTES={"stack":"blue"}' >> /etc/ecs/ecs.config
//
//	[settings.ecs]
//	cluster = "prod"
//
// The last line of a name wins, as it does for the agent.
func agentConfig(userData string) (name string, attributes map[string]string, err error) {
	raw, err := base64.StdEncoding.DecodeString(userData)
	if err != nil {
		return "", nil, err
	}
	text := string(raw)
	name = "default"
	if found := clusterVariable.FindAllStringSubmatch(text, -1); len(found) > 0 {
		name = found[len(found)-1][1]
	} else if found := bottlerocket.FindStringSubmatch(text); found != nil && strings.Contains(text, "[settings.ecs]") {
		name = found[1]
	}
	if found := attributeVariable.FindAllStringSubmatch(text, -1); len(found) > 0 {
		err = json.Unmarshal([]byte(strings.ReplaceAll(found[len(found)-1][1], `\"`, `"`)), &attributes)
	}
	return name, attributes, err
}
