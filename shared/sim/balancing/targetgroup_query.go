package balancing

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// The answers, with the names of the API.
type (
	xmlGroup struct {
		ARN        string `xml:"TargetGroupArn"`
		Name       string `xml:"TargetGroupName"`
		Protocol   string
		Port       int
		VPC        string `xml:"VpcId,omitempty"`
		TargetType string
		keptSettings
		LoadBalancers []string `xml:"LoadBalancerArns>member"`
	}
	xmlAttribute struct{ Key, Value string }
	xmlTarget    struct {
		ID          string `xml:"Target>Id"`
		Port        int    `xml:"Target>Port"`
		State       string `xml:"TargetHealth>State"`
		Reason      string `xml:"TargetHealth>Reason,omitempty"`
		Description string `xml:"TargetHealth>Description,omitempty"`
	}
	// xmlResult has the members that any of the operations answers with.
	xmlResult struct {
		Groups     []xmlGroup     `xml:"TargetGroups>member,omitempty"`
		Attributes []xmlAttribute `xml:"Attributes>member,omitempty"`
		Health     []xmlTarget    `xml:"TargetHealthDescriptions>member,omitempty"`
	}
)

// QueryService returns the operations of Elastic Load Balancing that are simulated.
func (e *TargetGroups) QueryService() protocol.QueryService {
	a := &groupAPI{e}
	actions := map[string]protocol.Action{
		"CreateTargetGroup":             protocol.StrictAction(a.createTargetGroup),
		"DescribeTargetGroups":          protocol.LenientAction(a.describeTargetGroups),
		"DeleteTargetGroup":             protocol.LenientAction(a.deleteTargetGroup),
		"ModifyTargetGroup":             protocol.StrictAction(a.modifyTargetGroup),
		"ModifyTargetGroupAttributes":   protocol.LenientAction(a.modifyAttributes),
		"DescribeTargetGroupAttributes": protocol.LenientAction(a.describeAttributes),
		"RegisterTargets":               protocol.LenientAction(a.registerTargets),
		"DeregisterTargets":             protocol.LenientAction(a.deregisterTargets),
		"DescribeTargetHealth":          protocol.LenientAction(a.describeTargetHealth),
	}
	maps.Copy(actions, a.tagActions())
	return protocol.QueryService{
		Namespace: "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/", Actions: actions,
	}
}

// groupAPI answers calls of the Query protocol.
type groupAPI struct{ groups *TargetGroups }

func (g *targetGroup) describeGroup() xmlGroup {
	return xmlGroup{
		ARN: g.ARN, Name: g.Name, Protocol: g.Protocol, Port: g.Port, VPC: g.VPC, TargetType: g.Type,
		keptSettings: g.withDefaults(g.Protocol),
	}
}

// createTargetGroup gives a group the default deregistration delay.
func (a *groupAPI) createTargetGroup(_ context.Context, in *struct {
	Name, TargetType, VpcId string
	Protocol                string `default:"HTTP"`
	Port                    int    `default:"80"`
	Tags                    []tagInput
	keptSettings
}) (any, error) {
	var out xmlResult
	err := a.groups.kernel.Change(func(time.Time) error {
		g, err := a.groups.newTargetGroup(targetGroup{
			Name: in.Name, Type: in.TargetType, Protocol: in.Protocol, VPC: in.VpcId, Port: in.Port,
			Delay: defaultDelay, Tags: tagMap(in.Tags), keptSettings: in.keptSettings,
		})
		if err == nil {
			out.Groups = []xmlGroup{g.describeGroup()}
		}
		return err
	})
	return &out, err
}

// describeTargetGroups fails if any of the groups named does not exist, as Elastic Load Balancing
// does.
func (a *groupAPI) describeTargetGroups(_ context.Context, in *struct{ Names, TargetGroupArns []string }) (any, error) {
	var out xmlResult
	all := len(in.Names)+len(in.TargetGroupArns) == 0
	err := a.groups.kernel.View(func(time.Time) error {
		for _, arn := range slices.Sorted(maps.Keys(a.groups.Rows)) {
			g := a.groups.Rows[arn]
			if all || slices.Contains(in.Names, g.Name) || slices.Contains(in.TargetGroupArns, arn) {
				out.Groups = append(out.Groups, g.describeGroup())
			}
		}
		if len(out.Groups) < len(in.Names)+len(in.TargetGroupArns) {
			return cluster.Errorf(cluster.CodeTargetGroupNotFound, "One or more target groups not found")
		}
		return nil
	})
	return &out, err
}

type groupInput struct{ TargetGroupArn string }

func (a *groupAPI) deleteTargetGroup(_ context.Context, in *groupInput) (any, error) {
	return nil, a.groups.DeleteTargetGroup(in.TargetGroupArn)
}

// modifyAttributes refuses attributes that would have no effect, and then changes none.
func (a *groupAPI) modifyAttributes(_ context.Context, in *struct {
	TargetGroupArn string
	Attributes     []xmlAttribute
}) (any, error) {
	var out xmlResult
	err := a.groups.kernel.Change(func(now time.Time) error {
		g, err := a.groups.findTargetGroup(in.TargetGroupArn, now)
		if err != nil {
			return err
		}
		if err := g.setAttributes(in.Attributes); err != nil {
			return err
		}
		out.Attributes = in.Attributes
		a.groups.kernel.SaveRow(g)
		return nil
	})
	return &out, err
}

func (a *groupAPI) describeAttributes(_ context.Context, in *groupInput) (any, error) {
	var out xmlResult
	err := a.groups.kernel.CallView("DescribeTargetGroupAttributes", in.TargetGroupArn, func(now time.Time) error {
		g, err := a.groups.findTargetGroup(in.TargetGroupArn, now)
		if err == nil {
			out.Attributes = g.describeAttributes()
		}
		return err
	})
	return &out, err
}

// targetsInput names targets of a group; none for all of them in DescribeTargetHealth.
type targetsInput struct {
	TargetGroupArn string
	Targets        []struct {
		Id   string
		Port int
	}
}

// targetAddresses returns the targets of a call. One without a port is at the port of the group.
func (a *groupAPI) targetAddresses(in *targetsInput) (targets []cluster.Address, err error) {
	err = a.groups.kernel.View(func(now time.Time) error {
		g, err := a.groups.findTargetGroup(in.TargetGroupArn, now)
		if err != nil {
			return err
		}
		for _, t := range in.Targets {
			targets = append(targets, cluster.Address{Host: t.Id, Port: cmp.Or(t.Port, g.Port)})
		}
		return nil
	})
	return targets, err
}

// registerTargets registers all targets or none.
func (a *groupAPI) registerTargets(ctx context.Context, in *targetsInput) (any, error) {
	targets, err := a.targetAddresses(in)
	if err != nil {
		return nil, err
	}
	return nil, a.groups.RegisterTargets(ctx, in.TargetGroupArn, targets)
}

func (a *groupAPI) deregisterTargets(ctx context.Context, in *targetsInput) (any, error) {
	targets, err := a.targetAddresses(in)
	if err != nil {
		return nil, err
	}
	return nil, a.groups.DeregisterTargets(ctx, in.TargetGroupArn, targets)
}

// describeTargetHealth answers for targets that are not registered as well, as "unused".
func (a *groupAPI) describeTargetHealth(_ context.Context, in *targetsInput) (any, error) {
	asked, err := a.targetAddresses(in)
	if err != nil {
		return nil, err
	}
	var out xmlResult
	err = a.groups.kernel.CallView("DescribeTargetHealth", in.TargetGroupArn, func(now time.Time) error {
		g, err := a.groups.findTargetGroup(in.TargetGroupArn, now)
		if err != nil {
			return err
		}
		add := func(a cluster.Address, s targetState) {
			out.Health = append(out.Health, xmlTarget{a.Host, a.Port, s.state, s.reason, s.description})
		}
		for k := range g.Targets {
			if t := &g.Targets[k]; len(asked) == 0 || slices.Contains(asked, t.Address) {
				add(t.Address, a.groups.currentState(t, now))
			}
		}
		for _, address := range asked {
			if !slices.ContainsFunc(g.Targets, func(t target) bool { return t.Address == address }) {
				add(address, targetState{"unused", "Target.NotRegistered",
					"Target is not registered to the target group"})
			}
		}
		return nil
	})
	return &out, err
}
