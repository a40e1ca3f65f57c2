package fleet

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
)

// scalingActions are the operations of Auto Scaling that the fleet knows.
var scalingActions = map[string]queryAction{
	"CompleteLifecycleAction":             (*Fleet).completeLifecycleAction,
	"CreateAutoScalingGroup":              (*Fleet).createGroup,
	"CreateOrUpdateTags":                  (*Fleet).createOrUpdateTags,
	"DeleteAutoScalingGroup":              (*Fleet).deleteGroup,
	"DeleteLifecycleHook":                 (*Fleet).deleteLifecycleHook,
	"DeletePolicy":                        (*Fleet).deletePolicy,
	"DeleteTags":                          (*Fleet).deleteTags,
	"DescribeAutoScalingGroups":           (*Fleet).describeGroups,
	"DescribeAutoScalingInstances":        (*Fleet).describeGroupInstances,
	"DescribeLifecycleHooks":              (*Fleet).describeLifecycleHooks,
	"DescribePolicies":                    (*Fleet).describePolicies,
	"DescribeScalingActivities":           (*Fleet).describeActivities,
	"PutLifecycleHook":                    (*Fleet).putLifecycleHook,
	"PutScalingPolicy":                    (*Fleet).putScalingPolicy,
	"RecordLifecycleActionHeartbeat":      (*Fleet).recordHeartbeat,
	"ResumeProcesses":                     (*Fleet).resumeProcesses,
	"SetDesiredCapacity":                  (*Fleet).setDesiredCapacity,
	"SetInstanceProtection":               (*Fleet).setInstanceProtection,
	"SuspendProcesses":                    (*Fleet).suspendProcesses,
	"TerminateInstanceInAutoScalingGroup": (*Fleet).terminateInstance,
	"UpdateAutoScalingGroup":              (*Fleet).updateGroup,
}

const asgName = "AutoScalingGroupName"

// groupParameters are those that groups can be made with and changed to.
var groupParameters = []string{
	asgName, "MinSize", "MaxSize", "DesiredCapacity", "NewInstancesProtectedFromScaleIn", "LaunchTemplate", "MixedInstancesPolicy",
	"AvailabilityZones", "VPCZoneIdentifier",
}

func (f *Fleet) createGroup(_ context.Context, form url.Values) (any, error) {
	g := &group{Name: form.Get(asgName), Rebalances: true, Tags: map[string]string{}, Own: map[string]bool{}}
	if err := only(form, append(groupParameters, "Tags")...); err != nil {
		return nil, err
	}
	if err := required(form, asgName, "MinSize", "MaxSize"); err != nil {
		return nil, err
	}
	keys := members(form, "Tags", ".Key")
	for n, key := range keys {
		at := fmt.Sprintf("Tags.member.%d.", n+1)
		if err := g.setTag(key, form.Get(at+"Value"), form.Get(at+"PropagateAtLaunch") == "true"); err != nil {
			return nil, err
		}
	}
	apply := func() error {
		return f.change(func(now time.Time) error {
			if err := f.readGroup(g, form); err != nil {
				return err
			}
			if len(g.Machine.Zones) == 0 {
				return cluster.Errorf("ValidationError", "At least one Availability Zone or VPC Subnet is required.")
			}
			if g.Template == "" {
				return cluster.Errorf("ValidationError", "Valid requests must contain either LaunchTemplate or MixedInstancesPolicy parameter.")
			}
			if err := f.fresh(g); err != nil {
				return err
			}
			f.add(g, now)
			return nil
		})
	}
	if proceed, err := f.faulty("CreateAutoScalingGroup", g.Name, apply); !proceed {
		return nil, err
	}
	return nil, apply()
}

func (f *Fleet) updateGroup(_ context.Context, form url.Values) (any, error) {
	if err := only(form, groupParameters...); err != nil {
		return nil, err
	}
	return nil, f.onGroup("UpdateAutoScalingGroup", form.Get(asgName), func(g *group, _ time.Time) error {
		next := *g
		next.Machine.Zones = slices.Clone(g.Machine.Zones)
		if err := f.readGroup(&next, form); err != nil {
			return err
		}
		*g = next
		return nil
	})
}

// readGroup gives a group what a form says of it.
func (f *Fleet) readGroup(g *group, form url.Values) error {
	for name, to := range map[string]*int{"MinSize": &g.Min, "MaxSize": &g.Max, "DesiredCapacity": &g.Desired} {
		if err := whole(form, name, to); err != nil {
			return err
		}
	}
	if !form.Has("DesiredCapacity") {
		g.Desired = max(g.Min, min(g.Max, g.Desired))
	}
	if err := sizes(g.Min, g.Max, g.Desired); err != nil {
		return err
	}
	if err := yes(form, "NewInstancesProtectedFromScaleIn", &g.Protects); err != nil {
		return err
	}
	if err := f.readZones(g, form); err != nil {
		return err
	}
	return f.readTemplate(g, form)
}

// readZones reads zones, or subnets: these are in the Region's zones in turn, as the fleet has no networks.
func (f *Fleet) readZones(g *group, form url.Values) error {
	zones := members(form, "AvailabilityZones", "")
	for _, zone := range zones {
		if letter, ok := strings.CutPrefix(zone, f.opt.Account.Region); !ok || len(letter) != 1 || letter < "a" || letter > "f" {
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
				zones = append(zones, f.opt.Account.Region+string(rune('a'+n)))
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
func (f *Fleet) readTemplate(g *group, form url.Values) error {
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
	for n, name := range members(form, mixedPrefix+"Overrides", ".InstanceType") {
		types = append(types, weightedType{name, form.Get(fmt.Sprintf("%sOverrides.member.%d.WeightedCapacity", mixedPrefix, n+1))})
	}
	ref := cluster.TemplateRef{ID: form.Get(prefix + "LaunchTemplateId"), Name: form.Get(prefix + "LaunchTemplateName")}
	if ref.ID+ref.Name == "" {
		return nil
	}
	t, err := f.template(ref)
	if err != nil {
		return cluster.Errorf("ValidationError", "You must use a valid fully-formed launch template. %s", message(err))
	}
	g.Mixed, g.Types = mixed, types
	return f.setTemplate(g, t.ID+":"+cmp.Or(form.Get(prefix+"Version"), "$Default"))
}

func (f *Fleet) deleteGroup(_ context.Context, form url.Values) (any, error) {
	if err := only(form, asgName, "ForceDelete"); err != nil {
		return nil, err
	}
	force := false
	if err := yes(form, "ForceDelete", &force); err != nil {
		return nil, err
	}
	return nil, f.change(func(now time.Time) error {
		g := f.groups[form.Get(asgName)]
		if g == nil {
			return noGroup(form.Get(asgName))
		}
		if len(g.Members) > 0 && !force {
			return cluster.Errorf("ResourceInUse", "You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) still in the group.")
		}
		delete(f.groups, g.Name)
		f.forget(g)
		for k := range g.Members {
			f.end(&g.Members[k], now)
		}
		for _, p := range g.Policies {
			f.deleteAlarms(p.alarms(g))
		}
		return nil
	})
}

func (f *Fleet) setDesiredCapacity(ctx context.Context, form url.Values) (any, error) {
	if err := only(form, asgName, "DesiredCapacity", "HonorCooldown"); err != nil {
		return nil, err
	}
	if err := required(form, asgName, "DesiredCapacity"); err != nil {
		return nil, err
	}
	n := 0
	if err := whole(form, "DesiredCapacity", &n); err != nil {
		return nil, err
	}
	return nil, f.SetDesired(ctx, form.Get(asgName), n)
}

// maxProtect is how many instances one call protects.
const maxProtect = 50

func (f *Fleet) setInstanceProtection(ctx context.Context, form url.Values) (any, error) {
	if err := only(form, asgName, "InstanceIds", "ProtectedFromScaleIn"); err != nil {
		return nil, err
	}
	if err := required(form, asgName, "ProtectedFromScaleIn"); err != nil {
		return nil, err
	}
	protected := false
	if err := yes(form, "ProtectedFromScaleIn", &protected); err != nil {
		return nil, err
	}
	ids := members(form, "InstanceIds", "")
	if len(ids) > maxProtect {
		return nil, cluster.Errorf("ValidationError", "1 validation error detected: Value at 'instanceIds' failed to satisfy constraint: Member must have length less than or equal to %d", maxProtect)
	}
	return nil, f.SetInstanceProtection(ctx, form.Get(asgName), ids, protected)
}

func (f *Fleet) terminateInstance(ctx context.Context, form url.Values) (any, error) {
	if err := only(form, "InstanceId", "ShouldDecrementDesiredCapacity"); err != nil {
		return nil, err
	}
	if err := required(form, "InstanceId", "ShouldDecrementDesiredCapacity"); err != nil {
		return nil, err
	}
	lower, id := false, form.Get("InstanceId")
	if err := yes(form, "ShouldDecrementDesiredCapacity", &lower); err != nil {
		return nil, err
	}
	name := f.groupOf(id)
	if err := f.TerminateInstance(ctx, id, lower); err != nil {
		return nil, err
	}
	var out struct {
		Activity *xmlActivity
	}
	err := f.look(func(time.Time) error {
		g := f.groups[name]
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
func (f *Fleet) eachTag(operation string, form url.Values, each func(g *group, key, value string, propagate bool) error) (any, error) {
	if err := only(form, "Tags"); err != nil {
		return nil, err
	}
	for n, key := range members(form, "Tags", ".Key") {
		at := fmt.Sprintf("Tags.member.%d.", n+1)
		if kind := form.Get(at + "ResourceType"); kind != "" && kind != "auto-scaling-group" {
			return nil, cluster.Errorf("ValidationError", "%.64s is not a valid resource type", kind)
		}
		err := f.onGroup(operation, form.Get(at+"ResourceId"), func(g *group, _ time.Time) error {
			return each(g, key, form.Get(at+"Value"), form.Get(at+"PropagateAtLaunch") == "true")
		})
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (f *Fleet) createOrUpdateTags(_ context.Context, form url.Values) (any, error) {
	return f.eachTag("CreateOrUpdateTags", form, (*group).setTag)
}

func (f *Fleet) deleteTags(_ context.Context, form url.Values) (any, error) {
	return f.eachTag("DeleteTags", form, func(g *group, key, _ string, _ bool) error {
		delete(g.Tags, key)
		delete(g.Own, key)
		return nil
	})
}

// processes reads which processes are meant; the fleet suspends AZRebalance alone.
func (f *Fleet) processes(form url.Values, rebalances bool) (any, error) {
	if err := only(form, asgName, "ScalingProcesses"); err != nil {
		return nil, err
	}
	names := members(form, "ScalingProcesses", "")
	if !slices.Equal(names, []string{"AZRebalance"}) {
		return nil, cluster.Errorf("ValidationError", "The simulated fleet suspends and resumes the process AZRebalance alone, not %.128s", strings.Join(names, ", "))
	}
	return nil, f.onGroup("SuspendProcesses", form.Get(asgName), func(g *group, _ time.Time) error {
		g.Rebalances = rebalances
		return nil
	})
}

func (f *Fleet) suspendProcesses(_ context.Context, form url.Values) (any, error) {
	return f.processes(form, false)
}

func (f *Fleet) resumeProcesses(_ context.Context, form url.Values) (any, error) {
	return f.processes(form, true)
}

func (f *Fleet) putLifecycleHook(_ context.Context, form url.Values) (any, error) {
	if err := only(form, asgName, "LifecycleHookName", "LifecycleTransition", "HeartbeatTimeout", "DefaultResult"); err != nil {
		return nil, err
	}
	seconds, result := 3600, cmp.Or(form.Get("DefaultResult"), "ABANDON")
	if err := whole(form, "HeartbeatTimeout", &seconds); err != nil {
		return nil, err
	}
	if transition := form.Get("LifecycleTransition"); transition != terminating {
		return nil, cluster.Errorf("ValidationError", "The simulated fleet holds up %s alone, not %.64q", terminating, transition)
	}
	if result != "CONTINUE" && result != "ABANDON" {
		return nil, cluster.Errorf("ValidationError", "DefaultResult is %.64q, and must be CONTINUE or ABANDON", result)
	}
	return nil, f.putHook(form.Get(asgName), form.Get("LifecycleHookName"), lifecycleHook{time.Duration(seconds) * time.Second, result})
}

func (f *Fleet) deleteLifecycleHook(ctx context.Context, form url.Values) (any, error) {
	name, hook := form.Get(asgName), form.Get("LifecycleHookName")
	known := false
	_ = f.look(func(time.Time) error {
		g := f.groups[name]
		known = g == nil || g.Hooks[hook] != lifecycleHook{}
		return nil
	})
	if !known {
		return nil, cluster.Errorf("ValidationError", "No Lifecycle Hook found with name %.255s", hook)
	}
	return nil, f.DeleteLifecycleHook(ctx, name, hook)
}

func (f *Fleet) describeLifecycleHooks(_ context.Context, form url.Values) (any, error) {
	if err := only(form, asgName, "LifecycleHookNames"); err != nil {
		return nil, err
	}
	type hook struct {
		LifecycleHookName, AutoScalingGroupName, LifecycleTransition, DefaultResult string
		HeartbeatTimeout, GlobalTimeout                                             int
	}
	var out struct {
		Hooks []hook `xml:"LifecycleHooks>member"`
	}
	wanted := members(form, "LifecycleHookNames", "")
	err := f.look(func(time.Time) error {
		g := f.groups[form.Get(asgName)]
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
func (f *Fleet) heldInstance(form url.Values) (id string) {
	if id = form.Get("InstanceId"); id != "" {
		return id
	}
	_ = f.look(func(time.Time) error {
		if g := f.groups[form.Get(asgName)]; g != nil {
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

func (f *Fleet) completeLifecycleAction(ctx context.Context, form url.Values) (any, error) {
	if err := required(form, asgName, "LifecycleHookName", "LifecycleActionResult"); err != nil {
		return nil, err
	}
	return nil, f.CompleteLifecycleAction(ctx, form.Get(asgName), form.Get("LifecycleHookName"), f.heldInstance(form))
}

func (f *Fleet) recordHeartbeat(ctx context.Context, form url.Values) (any, error) {
	if err := required(form, asgName, "LifecycleHookName"); err != nil {
		return nil, err
	}
	return nil, f.RecordHeartbeat(ctx, form.Get(asgName), form.Get("LifecycleHookName"), f.heldInstance(form))
}

// message is what an error says, without its code.
func message(err error) string {
	e, _ := asError(err)
	return e.Message
}
