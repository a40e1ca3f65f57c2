package balancing

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

type (
	xmlGroup struct {
		ARN        string `xml:"TargetGroupArn"`
		Name       string `xml:"TargetGroupName"`
		Protocol   string
		Port       int
		VPC        string `xml:"VpcId,omitempty"`
		TargetType string
	}
	xmlAttribute struct{ Key, Value string }
	xmlTarget    struct {
		ID          string `xml:"Target>Id"`
		Port        int    `xml:"Target>Port"`
		State       string `xml:"TargetHealth>State"`
		Reason      string `xml:"TargetHealth>Reason,omitempty"`
		Description string `xml:"TargetHealth>Description,omitempty"`
	}
	// xmlResult is what any of the operations answers.
	xmlResult struct {
		Groups     []xmlGroup     `xml:"TargetGroups>member,omitempty"`
		Attributes []xmlAttribute `xml:"Attributes>member,omitempty"`
		Health     []xmlTarget    `xml:"TargetHealthDescriptions>member,omitempty"`
	}
)

// Query returns the operations of Elastic Load Balancing that are simulated.
func (e *TargetGroups) Query() protocol.QueryService {
	return protocol.QueryService{Namespace: "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/", Actions: map[string]protocol.Action{
		"CreateTargetGroup":    func(_ context.Context, form url.Values) (any, error) { return e.createTargetGroup(form) },
		"DescribeTargetGroups": func(_ context.Context, form url.Values) (any, error) { return e.describeTargetGroups(form) },
		"DeleteTargetGroup": func(_ context.Context, form url.Values) (any, error) {
			return nil, e.DeleteTargetGroup(form.Get(groupARN))
		},
		"ModifyTargetGroupAttributes": func(_ context.Context, form url.Values) (any, error) {
			return e.modifyTargetGroup(form.Get(groupARN), form)
		},
		"DescribeTargetGroupAttributes": func(ctx context.Context, form url.Values) (any, error) {
			delay, err := e.DeregistrationDelay(ctx, form.Get(groupARN))
			return &xmlResult{Attributes: []xmlAttribute{{delayAttribute, strconv.Itoa(int(delay / time.Second))}}}, err
		},
		"RegisterTargets": func(ctx context.Context, form url.Values) (any, error) {
			targets, err := e.formTargets(form.Get(groupARN), form)
			if err != nil {
				return nil, err
			}
			return nil, e.RegisterTargets(ctx, form.Get(groupARN), targets)
		},
		"DeregisterTargets": func(ctx context.Context, form url.Values) (any, error) {
			targets, err := e.formTargets(form.Get(groupARN), form)
			if err != nil {
				return nil, err
			}
			return nil, e.DeregisterTargets(ctx, form.Get(groupARN), targets)
		},
		"DescribeTargetHealth": func(_ context.Context, form url.Values) (any, error) {
			return e.describeTargetHealth(form.Get(groupARN), form)
		},
	}}
}

const groupARN = "TargetGroupArn"

const delayAttribute = "deregistration_delay.timeout_seconds"

func (g *targetGroup) xml() xmlGroup {
	return xmlGroup{ARN: g.ARN, Name: g.Name, Protocol: g.Protocol, Port: g.Port, VPC: g.VPC, TargetType: g.Type}
}

func (e *TargetGroups) createTargetGroup(form url.Values) (*xmlResult, error) {
	port, _ := strconv.Atoi(form.Get("Port"))
	var result xmlResult
	err := e.kernel.Change(func(time.Time) error {
		g, err := e.newTargetGroup(targetGroup{
			Name: form.Get("Name"), Type: form.Get("TargetType"), Protocol: cmp.Or(form.Get("Protocol"), "HTTP"), VPC: form.Get("VpcId"),
			Port: cmp.Or(port, 80), Delay: defaultDelay,
		})
		if err == nil {
			result.Groups = []xmlGroup{g.xml()}
		}
		return err
	})
	return &result, err
}

func (e *TargetGroups) describeTargetGroups(form url.Values) (*xmlResult, error) {
	names, arns := protocol.Members(form, "Names", ""), protocol.Members(form, "TargetGroupArns", "")
	var result xmlResult
	err := e.kernel.View(func(time.Time) error {
		for _, arn := range slices.Sorted(maps.Keys(e.rows)) {
			g := e.rows[arn]
			if len(names)+len(arns) == 0 || slices.Contains(names, g.Name) || slices.Contains(arns, arn) {
				result.Groups = append(result.Groups, g.xml())
			}
		}
		if len(result.Groups) < len(names)+len(arns) {
			return cluster.Errorf(cluster.CodeTargetGroupNotFound, "One or more target groups not found")
		}
		return nil
	})
	return &result, err
}

func (e *TargetGroups) modifyTargetGroup(arn string, form url.Values) (*xmlResult, error) {
	keys, values := protocol.Members(form, "Attributes", ".Key"), protocol.Members(form, "Attributes", ".Value")
	var result xmlResult
	err := e.kernel.Change(func(now time.Time) error {
		g, err := e.targetGroup(arn, now)
		if err != nil {
			return err
		}
		for n, key := range keys {
			seconds, err := strconv.ParseUint(values[min(n, len(values)-1)], 10, 16)
			delay := time.Duration(seconds) * time.Second
			if key != delayAttribute || err != nil || delay > maxDelay {
				return cluster.Errorf("ValidationError", "the attribute %.64q is not known here, or its value no time", key)
			}
			g.Delay = delay
			result.Attributes = append(result.Attributes, xmlAttribute{key, values[n]})
		}
		e.kernel.Save(g)
		return nil
	})
	return &result, err
}

// formTargets are the targets that a form names; the group's own port where it names none.
func (e *TargetGroups) formTargets(arn string, form url.Values) (targets []cluster.Address, err error) {
	err = e.kernel.View(func(now time.Time) error {
		g, err := e.targetGroup(arn, now)
		if err != nil {
			return err
		}
		for n, host := range protocol.Members(form, "Targets", ".Id") {
			port, _ := strconv.Atoi(form.Get(fmt.Sprintf("Targets.member.%d.Port", n+1)))
			targets = append(targets, cluster.Address{Host: host, Port: cmp.Or(port, g.Port)})
		}
		return nil
	})
	return targets, err
}

func (e *TargetGroups) describeTargetHealth(arn string, form url.Values) (*xmlResult, error) {
	asked, err := e.formTargets(arn, form)
	if err != nil {
		return nil, err
	}
	var result xmlResult
	err = e.kernel.CallView("DescribeTargetHealth", arn, func(now time.Time) error {
		g, err := e.targetGroup(arn, now)
		if err != nil {
			return err
		}
		add := func(a cluster.Address, s targetState) {
			result.Health = append(result.Health, xmlTarget{a.Host, a.Port, s.state, s.reason, s.description})
		}
		for k := range g.Targets {
			if t := &g.Targets[k]; len(asked) == 0 || slices.Contains(asked, t.Address) {
				add(t.Address, e.targetState(t, now))
			}
		}
		for _, a := range asked {
			if !slices.ContainsFunc(g.Targets, func(t target) bool { return t.Address == a }) {
				add(a, targetState{"unused", "Target.NotRegistered", "Target is not registered to the target group"})
			}
		}
		return nil
	})
	return &result, err
}
