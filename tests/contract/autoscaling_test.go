package contract

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	asg "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"berth/shared/awsapi/autoscaling"
	"berth/shared/awsapi/cloudwatch"
	"berth/shared/cluster"
)

// scalingSuite is the contract of Auto Scaling and of CloudWatch's metrics, on moto.
type scalingSuite struct {
	ctx     context.Context
	client  *asg.Client
	groups  *autoscaling.Groups
	metrics *cloudwatch.Metrics
	n       int
}

func TestAutoScaling(t *testing.T) {
	config := configOf(moto(t))
	s := &scalingSuite{ctx: t.Context(), client: asg.NewFromConfig(config), groups: autoscaling.New(config), metrics: cloudwatch.NewMetrics(config)}
	s.metrics.Client = cw.NewFromConfig(config, func(o *cw.Options) { // moto knows no CBOR
		o.Protocol = awsquery.New(&smithy.ServiceSchema{Version: "2010-08-01"})
	})
	_, err := s.client.CreateLaunchConfiguration(t.Context(), &asg.CreateLaunchConfigurationInput{
		LaunchConfigurationName: aws.String("scaling"), ImageId: aws.String("ami-12c6146b"), InstanceType: aws.String("t3.micro"),
	})
	if err != nil {
		t.Fatal(err)
	}
	hold(t, map[string]string{"NoSuchGroup": "moto fails itself where there is no such group"}, append(s.sizeClauses(), s.attachmentClauses()...))
}

// group makes a group of n instances.
func (s *scalingSuite) group(n int32) (string, error) {
	s.n++
	name := fmt.Sprint("scaling-", s.n)
	_, err := s.client.CreateAutoScalingGroup(s.ctx, &asg.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &name, LaunchConfigurationName: aws.String("scaling"), MinSize: aws.Int32(0), MaxSize: aws.Int32(5),
		DesiredCapacity: &n, AvailabilityZones: []string{region + "a"}, NewInstancesProtectedFromScaleIn: aws.Bool(true),
	})
	return name, err
}

func (s *scalingSuite) described(n int32) (*cluster.AutoScalingGroup, error) {
	name, err := s.group(n)
	if err != nil {
		return nil, err
	}
	return s.again(name)
}

func (s *scalingSuite) again(name string) (*cluster.AutoScalingGroup, error) {
	got, err := s.groups.DescribeGroups(s.ctx, []string{name, "none"})
	if err != nil || len(got) != 1 {
		return nil, errors.Join(err, equal("the number of groups", len(got), 1))
	}
	return got[0], nil
}

func (s *scalingSuite) sizeClauses() []clause {
	return []clause{
		{"AGroupIsDescribed", func() error {
			g, err := s.described(2)
			if err != nil {
				return err
			}
			i := g.Instances[0]
			return errors.Join(equal("desired", g.Desired, 2), equal("max", g.Max, 5), equal("instances", len(g.Instances), 2),
				equal("protects", g.Protects, true), equal("protected", i.Protected, true), equal("running", i.Running(), true),
				equal("type", i.Type, "t3.micro"), equal("zone", i.Zone, region+"a"), equal("weighted", g.Weighted, false))
		}},
		{"TheDesiredCapacityIsSet", func() error {
			g, err := s.described(0)
			if err != nil {
				return err
			}
			if err := s.groups.SetDesired(s.ctx, g.Name, 3); err != nil {
				return err
			}
			g, err = s.again(g.Name)
			return errors.Join(err, equal("desired", g.Desired, 3), equal("instances", len(g.Instances), 3))
		}},
		{"NoSuchGroup", func() error {
			err := s.groups.SetDesired(s.ctx, "none", 1)
			return equal("the code", cluster.ErrorCode(err), "ValidationError")
		}},
		{"InstancesAreReleasedAndProtected", func() error {
			g, err := s.described(2)
			if err != nil {
				return err
			}
			id := g.Instances[0].ID
			if err := s.groups.SetInstanceProtection(s.ctx, g.Name, []string{id}, false); err != nil {
				return err
			}
			g, err = s.again(g.Name)
			return errors.Join(err, equal("the first", g.Instances[0].Protected, false), equal("the second", g.Instances[1].Protected, true))
		}},
		{"ATerminatedInstanceLowersTheCapacity", func() error {
			g, err := s.described(2)
			if err != nil {
				return err
			}
			if err := s.groups.TerminateInstance(s.ctx, g.Instances[0].ID, true); err != nil {
				return err
			}
			g, err = s.again(g.Name)
			return errors.Join(err, equal("desired", g.Desired, 1))
		}},
		{"ATagIsTheGroupsAlone", func() error {
			g, err := s.described(0)
			if err != nil {
				return err
			}
			if err := s.groups.TagGroup(s.ctx, g.Name, cluster.ManagedTag, "true"); err != nil {
				return err
			}
			g, err = s.again(g.Name)
			return errors.Join(err, equal("the tag", g.Tags[cluster.ManagedTag], "true"))
		}},
	}
}

func (s *scalingSuite) attachmentClauses() []clause {
	return []clause{
		{"AHookIsMadeAndTakenBackTwice", func() error {
			name, err := s.group(0)
			if err != nil {
				return err
			}
			hook := cluster.LifecycleHook{Group: name, Name: cluster.DrainingHook, Heartbeat: time.Hour}
			if err := s.groups.PutLifecycleHook(s.ctx, hook); err != nil {
				return err
			}
			out, err := s.client.DescribeLifecycleHooks(s.ctx, &asg.DescribeLifecycleHooksInput{AutoScalingGroupName: &name})
			if err != nil {
				return err
			}
			return errors.Join(equal("hooks", len(out.LifecycleHooks), 1), equal("heartbeat", *out.LifecycleHooks[0].HeartbeatTimeout, 3600),
				s.groups.DeleteLifecycleHook(s.ctx, name, hook.Name), s.groups.DeleteLifecycleHook(s.ctx, name, hook.Name))
		}},
		{"APolicyIsMadeAndTakenBackTwice", func() error {
			name, err := s.group(0)
			if err != nil {
				return err
			}
			p := cluster.TrackingPolicy{Group: name, Name: "policy", Namespace: "Berth", Cluster: "c", Provider: "p", Target: 90, Warmup: time.Minute}
			if err := s.groups.PutTrackingPolicy(s.ctx, p); err != nil {
				return err
			}
			out, err := s.client.DescribePolicies(s.ctx, &asg.DescribePoliciesInput{AutoScalingGroupName: &name})
			if err != nil {
				return err
			}
			return errors.Join(equal("policies", len(out.ScalingPolicies), 1), equal("target", *out.ScalingPolicies[0].TargetTrackingConfiguration.TargetValue, 90),
				s.groups.DeletePolicy(s.ctx, name, p.Name), s.groups.DeletePolicy(s.ctx, name, p.Name))
		}},
		{"AlarmsAndDatapoints", func() error {
			a := cluster.MetricAlarm{Name: "low", Namespace: cluster.DefaultScalingSpace, Cluster: "c", Provider: "p", Below: true, Threshold: 80, Times: 15}
			if err := s.metrics.PutMetricAlarm(s.ctx, a); err != nil {
				return err
			}
			point := cluster.Datapoint{Namespace: a.Namespace, Cluster: "c", Provider: "p", Percent: 50, At: time.Now()}
			if err := s.metrics.PutReservation(s.ctx, []cluster.Datapoint{point}); err != nil {
				return err
			}
			out, err := s.metrics.Client.DescribeAlarms(s.ctx, &cw.DescribeAlarmsInput{AlarmNames: []string{a.Name}})
			if err != nil {
				return err
			}
			m := out.MetricAlarms[0]
			return errors.Join(equal("times", *m.EvaluationPeriods, 15), equal("metric", *m.MetricName, cluster.ReservationMetric),
				equal("dimensions", len(m.Dimensions), 2), s.metrics.DeleteAlarms(s.ctx, []string{a.Name, "none"}))
		}},
	}
}
