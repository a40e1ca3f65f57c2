package autoscaling

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

// hookAPI answers calls about lifecycle hooks and the terminations that they hold up.
type hookAPI struct{ groups *Groups }

// putLifecycleHook refuses hooks of launches: an instance would wait in Pending:Wait, a state that
// nothing here leads to. Auto Scaling's defaults are an hour and ABANDON.
func (a *hookAPI) putLifecycleHook(_ context.Context, in *struct {
	AutoScalingGroupName, LifecycleHookName, LifecycleTransition string
	HeartbeatTimeout                                             int    `default:"3600"`
	DefaultResult                                                string `default:"ABANDON"`
}) (any, error) {
	if in.LifecycleTransition != terminating {
		return nil, cluster.Errorf("ValidationError", "The simulated AWS holds up %s alone, not %.64q", terminating,
			in.LifecycleTransition)
	}
	if in.DefaultResult != "CONTINUE" && in.DefaultResult != "ABANDON" {
		return nil, cluster.Errorf("ValidationError", "DefaultResult is %.64q, and must be CONTINUE or ABANDON",
			in.DefaultResult)
	}
	hook := lifecycleHook{time.Duration(in.HeartbeatTimeout) * time.Second, in.DefaultResult}
	return nil, a.groups.putHook(in.AutoScalingGroupName, in.LifecycleHookName, hook)
}

// deleteLifecycleHook refuses a hook that does not exist, as Auto Scaling does. Berth's own call
// ([Groups.DeleteLifecycleHook]) does not, like the adapter that it stands for.
func (a *hookAPI) deleteLifecycleHook(
	ctx context.Context, in *struct{ AutoScalingGroupName, LifecycleHookName string },
) (any, error) {
	known := false
	_ = a.groups.kernel.View(func(time.Time) error {
		g := a.groups.byName[in.AutoScalingGroupName]
		known = g == nil || g.Hooks[in.LifecycleHookName] != lifecycleHook{}
		return nil
	})
	if !known {
		return nil, cluster.Errorf("ValidationError", "No Lifecycle Hook found with name %.255s", in.LifecycleHookName)
	}
	return nil, a.groups.DeleteLifecycleHook(ctx, in.AutoScalingGroupName, in.LifecycleHookName)
}

// describeLifecycleHooks reports the longest hold of each hook as its GlobalTimeout, in seconds.
func (a *hookAPI) describeLifecycleHooks(_ context.Context, in *struct {
	AutoScalingGroupName string
	LifecycleHookNames   []string
}) (any, error) {
	type hook struct {
		LifecycleHookName, AutoScalingGroupName, LifecycleTransition, DefaultResult string
		HeartbeatTimeout, GlobalTimeout                                             int
	}
	var out struct {
		Hooks []hook `xml:"LifecycleHooks>member"`
	}
	err := a.groups.kernel.View(func(time.Time) error {
		g := a.groups.byName[in.AutoScalingGroupName]
		if g == nil {
			return groupNotFound(in.AutoScalingGroupName)
		}
		for _, name := range slices.Sorted(maps.Keys(g.Hooks)) {
			if h := g.Hooks[name]; len(in.LifecycleHookNames) == 0 || slices.Contains(in.LifecycleHookNames, name) {
				longest := min(longestHold, 100*h.Heartbeat)
				out.Hooks = append(out.Hooks, hook{name, g.Name, terminating, h.Result, int(h.Heartbeat / time.Second),
					int(longest / time.Second)})
			}
		}
		return nil
	})
	return out, err
}

// heldInput names a termination that a hook holds up, by the instance or by the token of the event.
type heldInput struct {
	AutoScalingGroupName             string `protocol:"required"`
	LifecycleHookName                string `protocol:"required"`
	InstanceId, LifecycleActionToken string
}

// heldInstance returns the instance that the input names, "" if its token is of no member. One that
// no hook holds up is refused later.
func (a *hookAPI) heldInstance(in *heldInput) (id string) {
	if in.InstanceId != "" {
		return in.InstanceId
	}
	_ = a.groups.kernel.View(func(time.Time) error {
		if g := a.groups.byName[in.AutoScalingGroupName]; g != nil {
			for _, m := range g.Members {
				if actionToken(in.LifecycleHookName, m.EC2) == in.LifecycleActionToken {
					id = m.EC2
				}
			}
		}
		return nil
	})
	return id
}

// completeLifecycleAction needs a result but does not look at it: for a termination CONTINUE and
// ABANDON mean the same, unless there are further hooks.
func (a *hookAPI) completeLifecycleAction(ctx context.Context, in *struct {
	AutoScalingGroupName             string `protocol:"required"`
	LifecycleHookName                string `protocol:"required"`
	LifecycleActionResult            string `protocol:"required"`
	InstanceId, LifecycleActionToken string
}) (any, error) {
	held := &heldInput{in.AutoScalingGroupName, in.LifecycleHookName, in.InstanceId, in.LifecycleActionToken}
	return nil, a.groups.CompleteLifecycleAction(ctx, in.AutoScalingGroupName, in.LifecycleHookName,
		a.heldInstance(held))
}

func (a *hookAPI) recordHeartbeat(ctx context.Context, in *heldInput) (any, error) {
	return nil, a.groups.RecordHeartbeat(ctx, in.AutoScalingGroupName, in.LifecycleHookName, a.heldInstance(in))
}
