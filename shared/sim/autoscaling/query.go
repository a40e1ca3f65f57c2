package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
	"berth/shared/sim/protocol"
)

// api answers calls of the Query protocol.
type api struct {
	kernel *kernel.Kernel
	groups *Groups
}

// Query returns the operations of Auto Scaling that are simulated.
func (e *Groups) Query() protocol.QueryService {
	a := &api{kernel: e.kernel, groups: e}
	return protocol.QueryService{Namespace: "http://autoscaling.amazonaws.com/doc/2011-01-01/", Actions: map[string]protocol.Action{
		"CompleteLifecycleAction":             a.completeLifecycleAction,
		"CreateAutoScalingGroup":              a.createGroup,
		"CreateOrUpdateTags":                  a.createOrUpdateTags,
		"DeleteAutoScalingGroup":              a.deleteGroup,
		"DeleteLifecycleHook":                 a.deleteLifecycleHook,
		"DeletePolicy":                        a.deletePolicy,
		"DeleteTags":                          a.deleteTags,
		"DescribeAutoScalingGroups":           a.describeGroups,
		"DescribeAutoScalingInstances":        a.describeGroupInstances,
		"DescribeLifecycleHooks":              a.describeLifecycleHooks,
		"DescribePolicies":                    a.describePolicies,
		"DescribeScalingActivities":           a.describeActivities,
		"PutLifecycleHook":                    a.putLifecycleHook,
		"PutScalingPolicy":                    a.putScalingPolicy,
		"RecordLifecycleActionHeartbeat":      a.recordHeartbeat,
		"ResumeProcesses":                     a.resumeProcesses,
		"SetDesiredCapacity":                  a.setDesiredCapacity,
		"SetInstanceProtection":               a.setInstanceProtection,
		"SuspendProcesses":                    a.suspendProcesses,
		"TerminateInstanceInAutoScalingGroup": a.terminateInstance,
		"UpdateAutoScalingGroup":              a.updateGroup,
	}}
}

const asgName = "AutoScalingGroupName"

// groupParameters are those that groups can be made with and changed to.
var groupParameters = []string{
	asgName, "MinSize", "MaxSize", "DesiredCapacity", "NewInstancesProtectedFromScaleIn", "LaunchTemplate", "MixedInstancesPolicy",
	"AvailabilityZones", "VPCZoneIdentifier",
}

func (e *api) createGroup(_ context.Context, form url.Values) (any, error) {
	g := &group{Name: form.Get(asgName), Rebalances: true, Tags: map[string]string{}, Own: map[string]bool{}}
	if err := protocol.Only(form, append(groupParameters, "Tags")...); err != nil {
		return nil, err
	}
	if err := protocol.Required(form, asgName, "MinSize", "MaxSize"); err != nil {
		return nil, err
	}
	keys := protocol.Members(form, "Tags", ".Key")
	for n, key := range keys {
		at := fmt.Sprintf("Tags.member.%d.", n+1)
		if err := g.setTag(key, form.Get(at+"Value"), form.Get(at+"PropagateAtLaunch") == "true"); err != nil {
			return nil, err
		}
	}
	return nil, e.kernel.Call("CreateAutoScalingGroup", g.Name, func(now time.Time) error {
		if err := e.readGroup(g, form); err != nil {
			return err
		}
		if len(g.Machine.Zones) == 0 {
			return cluster.Errorf("ValidationError", "At least one Availability Zone or VPC Subnet is required.")
		}
		if g.Template == "" {
			return cluster.Errorf("ValidationError", "Valid requests must contain either LaunchTemplate or MixedInstancesPolicy parameter.")
		}
		if err := e.groups.scaler.fresh(g); err != nil {
			return err
		}
		e.groups.scaler.add(g, now)
		return nil
	})
}

func (e *api) updateGroup(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, groupParameters...); err != nil {
		return nil, err
	}
	return nil, e.groups.onGroup("UpdateAutoScalingGroup", form.Get(asgName), func(g *group, _ time.Time) error {
		next := *g
		next.Machine.Zones = slices.Clone(g.Machine.Zones)
		if err := e.readGroup(&next, form); err != nil {
			return err
		}
		*g = next
		return nil
	})
}

// readGroup gives a group what a form says of it.
func (e *api) readGroup(g *group, form url.Values) error {
	for name, to := range map[string]*int{"MinSize": &g.Min, "MaxSize": &g.Max, "DesiredCapacity": &g.Desired} {
		if err := protocol.Whole(form, name, to); err != nil {
			return err
		}
	}
	if !form.Has("DesiredCapacity") {
		g.Desired = max(g.Min, min(g.Max, g.Desired))
	}
	if err := sizes(g.Min, g.Max, g.Desired); err != nil {
		return err
	}
	if err := protocol.YesNo(form, "NewInstancesProtectedFromScaleIn", &g.Protects); err != nil {
		return err
	}
	if err := e.readZones(g, form); err != nil {
		return err
	}
	return e.readTemplate(g, form)
}

// readZones reads zones, or subnets: these are in the Region's zones in turn, as the fleet has no networks.
func (e *api) readZones(g *group, form url.Values) error {
	zones := protocol.Members(form, "AvailabilityZones", "")
	for _, zone := range zones {
		if letter, ok := strings.CutPrefix(zone, e.kernel.Account().Region); !ok || len(letter) != 1 || letter < "a" || letter > "f" {
			return cluster.Errorf("ValidationError", "Invalid availability zones: [%.64s]", zone)
		}
	}
	if subnets := form.Get("VPCZoneIdentifier"); subnets != "" {
		g.Subnets = subnets
		for n, subnet := range strings.Split(subnets, ",") {
			if !strings.HasPrefix(strings.TrimSpace(subnet), "subnet-") || n >= 6 {
				return cluster.Errorf("ValidationError", "The subnet ID '%.64s' does not exist", subnet)
			}
			if !form.Has("AvailabilityZones.member.1") {
				zones = append(zones, e.kernel.Account().Region+string(rune('a'+n)))
			}
		}
	}
	if len(zones) > 0 {
		g.Machine.Zones = zones
	}
	return nil
}

const mixedPrefix = "MixedInstancesPolicy.LaunchTemplate."

// readTemplate reads the launch template, or the mixed instances policy.
func (e *api) readTemplate(g *group, form url.Values) error {
	prefix, mixed := "LaunchTemplate.", false
	var types []weightedType
	for key := range form {
		if strings.HasPrefix(key, "MixedInstancesPolicy.") {
			if !strings.HasPrefix(key, mixedPrefix) || strings.HasPrefix(key, mixedPrefix+"Overrides.") && strings.Contains(key, "LaunchTemplateSpecification") {
				return cluster.Errorf("ValidationError", "The simulated fleet does not know the parameter %.128s", key)
			}
			prefix, mixed = mixedPrefix+"LaunchTemplateSpecification.", true
		}
	}
	for n, name := range protocol.Members(form, mixedPrefix+"Overrides", ".InstanceType") {
		types = append(types, weightedType{name, form.Get(fmt.Sprintf("%sOverrides.member.%d.WeightedCapacity", mixedPrefix, n+1))})
	}
	ref := cluster.TemplateRef{ID: form.Get(prefix + "LaunchTemplateId"), Name: form.Get(prefix + "LaunchTemplateName")}
	if ref.ID+ref.Name == "" {
		return nil
	}
	t, _, err := e.groups.scaler.Templates.Find(ref)
	if err != nil {
		return cluster.Errorf("ValidationError", "You must use a valid fully-formed launch template. %s", message(err))
	}
	g.Mixed, g.Types = mixed, types
	return e.groups.scaler.setTemplate(g, t.ID+":"+cmp.Or(form.Get(prefix+"Version"), "$Default"))
}

func (e *api) deleteGroup(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, asgName, "ForceDelete"); err != nil {
		return nil, err
	}
	force := false
	if err := protocol.YesNo(form, "ForceDelete", &force); err != nil {
		return nil, err
	}
	return nil, e.kernel.Change(func(now time.Time) error {
		g := e.groups.scaler.groups[form.Get(asgName)]
		if g == nil {
			return noGroup(form.Get(asgName))
		}
		if len(g.Members) > 0 && !force {
			return cluster.Errorf("ResourceInUse", "You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) still in the group.")
		}
		delete(e.groups.scaler.groups, g.Name)
		e.kernel.Delete(g)
		for k := range g.Members {
			e.groups.scaler.end(&g.Members[k], now)
		}
		for _, p := range g.Policies {
			e.groups.scaler.Alarms.Delete(p.alarms(g))
		}
		return nil
	})
}

func (e *api) setDesiredCapacity(ctx context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, asgName, "DesiredCapacity", "HonorCooldown"); err != nil {
		return nil, err
	}
	if err := protocol.Required(form, asgName, "DesiredCapacity"); err != nil {
		return nil, err
	}
	n := 0
	if err := protocol.Whole(form, "DesiredCapacity", &n); err != nil {
		return nil, err
	}
	return nil, e.groups.SetDesired(ctx, form.Get(asgName), n)
}

// maxProtect is how many instances one call protects.
const maxProtect = 50

func (e *api) setInstanceProtection(ctx context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, asgName, "InstanceIds", "ProtectedFromScaleIn"); err != nil {
		return nil, err
	}
	if err := protocol.Required(form, asgName, "ProtectedFromScaleIn"); err != nil {
		return nil, err
	}
	protected := false
	if err := protocol.YesNo(form, "ProtectedFromScaleIn", &protected); err != nil {
		return nil, err
	}
	ids := protocol.Members(form, "InstanceIds", "")
	if len(ids) > maxProtect {
		return nil, cluster.Errorf("ValidationError", "1 validation error detected: Value at 'instanceIds' failed to satisfy constraint: Member must have length less than or equal to %d", maxProtect)
	}
	return nil, e.groups.SetInstanceProtection(ctx, form.Get(asgName), ids, protected)
}

func (e *api) terminateInstance(ctx context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, "InstanceId", "ShouldDecrementDesiredCapacity"); err != nil {
		return nil, err
	}
	if err := protocol.Required(form, "InstanceId", "ShouldDecrementDesiredCapacity"); err != nil {
		return nil, err
	}
	lower, id := false, form.Get("InstanceId")
	if err := protocol.YesNo(form, "ShouldDecrementDesiredCapacity", &lower); err != nil {
		return nil, err
	}
	name := e.groups.groupOf(id)
	if err := e.groups.TerminateInstance(ctx, id, lower); err != nil {
		return nil, err
	}
	var out struct {
		Activity *xmlActivity
	}
	err := e.kernel.View(func(time.Time) error {
		g := e.groups.scaler.groups[name]
		if g == nil {
			return nil
		}
		for _, a := range slices.Backward(g.Activities) {
			if strings.HasSuffix(a.Description, id) {
				out.Activity = new(a.describe(g))
				break
			}
		}
		return nil
	})
	return out, err
}

// eachTag goes through the tags of a form.
func (e *api) eachTag(operation string, form url.Values, each func(g *group, key, value string, propagate bool) error) (any, error) {
	if err := protocol.Only(form, "Tags"); err != nil {
		return nil, err
	}
	for n, key := range protocol.Members(form, "Tags", ".Key") {
		at := fmt.Sprintf("Tags.member.%d.", n+1)
		if kind := form.Get(at + "ResourceType"); kind != "" && kind != "auto-scaling-group" {
			return nil, cluster.Errorf("ValidationError", "%.64s is not a valid resource type", kind)
		}
		err := e.groups.onGroup(operation, form.Get(at+"ResourceId"), func(g *group, _ time.Time) error {
			return each(g, key, form.Get(at+"Value"), form.Get(at+"PropagateAtLaunch") == "true")
		})
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (e *api) createOrUpdateTags(_ context.Context, form url.Values) (any, error) {
	return e.eachTag("CreateOrUpdateTags", form, (*group).setTag)
}

func (e *api) deleteTags(_ context.Context, form url.Values) (any, error) {
	return e.eachTag("DeleteTags", form, func(g *group, key, _ string, _ bool) error {
		delete(g.Tags, key)
		delete(g.Own, key)
		return nil
	})
}

// processes reads which processes are meant; the fleet suspends AZRebalance alone.
func (e *api) processes(form url.Values, rebalances bool) (any, error) {
	if err := protocol.Only(form, asgName, "ScalingProcesses"); err != nil {
		return nil, err
	}
	names := protocol.Members(form, "ScalingProcesses", "")
	if !slices.Equal(names, []string{"AZRebalance"}) {
		return nil, cluster.Errorf("ValidationError", "The simulated fleet suspends and resumes the process AZRebalance alone, not %.128s", strings.Join(names, ", "))
	}
	return nil, e.groups.onGroup("SuspendProcesses", form.Get(asgName), func(g *group, _ time.Time) error {
		g.Rebalances = rebalances
		return nil
	})
}

func (e *api) suspendProcesses(_ context.Context, form url.Values) (any, error) {
	return e.processes(form, false)
}

func (e *api) resumeProcesses(_ context.Context, form url.Values) (any, error) {
	return e.processes(form, true)
}

func (e *api) putLifecycleHook(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, asgName, "LifecycleHookName", "LifecycleTransition", "HeartbeatTimeout", "DefaultResult"); err != nil {
		return nil, err
	}
	seconds, result := 3600, cmp.Or(form.Get("DefaultResult"), "ABANDON")
	if err := protocol.Whole(form, "HeartbeatTimeout", &seconds); err != nil {
		return nil, err
	}
	if transition := form.Get("LifecycleTransition"); transition != terminating {
		return nil, cluster.Errorf("ValidationError", "The simulated fleet holds up %s alone, not %.64q", terminating, transition)
	}
	if result != "CONTINUE" && result != "ABANDON" {
		return nil, cluster.Errorf("ValidationError", "DefaultResult is %.64q, and must be CONTINUE or ABANDON", result)
	}
	return nil, e.groups.putHook(form.Get(asgName), form.Get("LifecycleHookName"), lifecycleHook{time.Duration(seconds) * time.Second, result})
}

func (e *api) deleteLifecycleHook(ctx context.Context, form url.Values) (any, error) {
	name, hook := form.Get(asgName), form.Get("LifecycleHookName")
	known := false
	_ = e.kernel.View(func(time.Time) error {
		g := e.groups.scaler.groups[name]
		known = g == nil || g.Hooks[hook] != lifecycleHook{}
		return nil
	})
	if !known {
		return nil, cluster.Errorf("ValidationError", "No Lifecycle Hook found with name %.255s", hook)
	}
	return nil, e.groups.DeleteLifecycleHook(ctx, name, hook)
}

func (e *api) describeLifecycleHooks(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, asgName, "LifecycleHookNames"); err != nil {
		return nil, err
	}
	type hook struct {
		LifecycleHookName, AutoScalingGroupName, LifecycleTransition, DefaultResult string
		HeartbeatTimeout, GlobalTimeout                                             int
	}
	var out struct {
		Hooks []hook `xml:"LifecycleHooks>member"`
	}
	wanted := protocol.Members(form, "LifecycleHookNames", "")
	err := e.kernel.View(func(time.Time) error {
		g := e.groups.scaler.groups[form.Get(asgName)]
		if g == nil {
			return noGroup(form.Get(asgName))
		}
		for _, name := range slices.Sorted(maps.Keys(g.Hooks)) {
			if h := g.Hooks[name]; len(wanted) == 0 || slices.Contains(wanted, name) {
				out.Hooks = append(out.Hooks, hook{name, g.Name, terminating, h.Result, int(h.Heartbeat / time.Second), int(min(mostHeld, 100*h.Heartbeat) / time.Second)})
			}
		}
		return nil
	})
	return out, err
}

// heldInstance is the instance whose termination a form names, by its id or by the token of the event.
func (e *api) heldInstance(form url.Values) (id string) {
	if id = form.Get("InstanceId"); id != "" {
		return id
	}
	_ = e.kernel.View(func(time.Time) error {
		if g := e.groups.scaler.groups[form.Get(asgName)]; g != nil {
			for _, m := range g.Members {
				if token(form.Get("LifecycleHookName"), m.EC2) == form.Get("LifecycleActionToken") {
					id = m.EC2
				}
			}
		}
		return nil
	})
	return id
}

func (e *api) completeLifecycleAction(ctx context.Context, form url.Values) (any, error) {
	if err := protocol.Required(form, asgName, "LifecycleHookName", "LifecycleActionResult"); err != nil {
		return nil, err
	}
	return nil, e.groups.CompleteLifecycleAction(ctx, form.Get(asgName), form.Get("LifecycleHookName"), e.heldInstance(form))
}

func (e *api) recordHeartbeat(ctx context.Context, form url.Values) (any, error) {
	if err := protocol.Required(form, asgName, "LifecycleHookName"); err != nil {
		return nil, err
	}
	return nil, e.groups.RecordHeartbeat(ctx, form.Get(asgName), form.Get("LifecycleHookName"), e.heldInstance(form))
}

// message is what an error says, without its code.
func message(err error) string {
	e, _ := protocol.AsError(err)
	return e.Message
}
