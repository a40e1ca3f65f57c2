package contract

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	asg "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"

	"berth/shared/awsapi"
	"berth/shared/awsapi/autoscaling"
	"berth/shared/awsapi/cloudwatch"
	"berth/shared/cluster"
)

// A scalingSuite is the contract of Auto Scaling and of CloudWatch's metrics, on one
// implementation.
type scalingSuite struct {
	*scaler
	ctx     context.Context
	client  *asg.Client
	groups  *autoscaling.Groups
	metrics *cloudwatch.Metrics
	n       int
}

func TestAutoScaling(t *testing.T) {
	onScalers(t, func(t *testing.T, b *scaler) []clause {
		s := &scalingSuite{
			scaler: b, ctx: t.Context(), client: asg.NewFromConfig(b.config), groups: autoscaling.NewGroups(b.config),
			metrics: cloudwatch.NewMetrics(b.config),
		}
		if b.cloudWatch != nil {
			s.metrics.Client = cw.NewFromConfig(b.config, b.cloudWatch)
		}
		b.createTemplate(t, "scaling")
		return append(append(s.sizeClauses(), s.attachmentClauses()...), s.strictClauses()...)
	})
}

// createGroup creates a group of n instances.
func (s *scalingSuite) createGroup(n int32) (string, error) {
	s.n++
	name := fmt.Sprint("scaling-", s.n)
	_, err := s.client.CreateAutoScalingGroup(s.ctx, &asg.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &name, MinSize: aws.Int32(0), MaxSize: aws.Int32(5), DesiredCapacity: &n,
		AvailabilityZones: []string{region + "a"},
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("scaling"),
			Version: aws.String("1")},
		NewInstancesProtectedFromScaleIn: aws.Bool(true),
	})
	s.awaitPending()
	return name, err
}

func (s *scalingSuite) createAndDescribe(n int32) (*cluster.AutoScalingGroup, error) {
	name, err := s.createGroup(n)
	if err != nil {
		return nil, err
	}
	return s.describeAgain(name)
}

func (s *scalingSuite) describeAgain(name string) (*cluster.AutoScalingGroup, error) {
	got, err := s.groups.DescribeGroups(s.ctx, []string{name, "none"})
	if err != nil || len(got) != 1 {
		return nil, errors.Join(err, checkEqual("the number of groups", len(got), 1))
	}
	return got[0], nil
}

func (s *scalingSuite) sizeClauses() []clause {
	return []clause{
		{"AGroupIsDescribed", func() error {
			g, err := s.createAndDescribe(2)
			if err != nil {
				return err
			}
			i := g.Instances[0]
			return errors.Join(checkEqual("desired", g.Desired, 2), checkEqual("max", g.Max, 5),
				checkEqual("instances", len(g.Instances), 2),
				checkEqual("protects", g.Protects, true), checkEqual("protected", i.Protected, true),
				checkEqual("running", i.IsInService(), true),
				checkEqual("type", i.Type, "t3.micro"), checkEqual("zone", i.Zone, region+"a"),
				checkEqual("weighted", g.Weighted, false))
		}},
		{"TheDesiredCapacityIsSet", func() error {
			g, err := s.createAndDescribe(0)
			if err != nil {
				return err
			}
			if err := s.groups.SetDesired(s.ctx, g.Name, 3); err != nil {
				return err
			}
			g, err = s.describeAgain(g.Name)
			return errors.Join(err, checkEqual("desired", g.Desired, 3), checkEqual("instances", len(g.Instances), 3))
		}},
		{"NoSuchGroup", func() error {
			err := s.groups.SetDesired(s.ctx, "none", 1)
			return checkEqual("the code", cluster.ErrorCode(err), "ValidationError")
		}},
		{"InstancesAreReleasedAndProtected", func() error {
			g, err := s.createAndDescribe(2)
			if err != nil {
				return err
			}
			id := g.Instances[0].ID
			if err := s.groups.SetInstanceProtection(s.ctx, g.Name, []string{id}, false); err != nil {
				return err
			}
			g, err = s.describeAgain(g.Name)
			return errors.Join(err, checkEqual("the first", g.Instances[0].Protected, false),
				checkEqual("the second", g.Instances[1].Protected, true))
		}},
		{"ATerminatedInstanceLowersTheCapacity", func() error {
			g, err := s.createAndDescribe(2)
			if err != nil {
				return err
			}
			if err := s.groups.TerminateInstance(s.ctx, g.Instances[0].ID, true); err != nil {
				return err
			}
			g, err = s.describeAgain(g.Name)
			return errors.Join(err, checkEqual("desired", g.Desired, 1))
		}},
		{"ATagIsTheGroupsAlone", func() error {
			g, err := s.createAndDescribe(0)
			if err != nil {
				return err
			}
			if err := s.groups.TagGroup(s.ctx, g.Name, cluster.ManagedTag, "true"); err != nil {
				return err
			}
			g, err = s.describeAgain(g.Name)
			return errors.Join(err, checkEqual("the tag", g.Tags[cluster.ManagedTag], "true"))
		}},
	}
}

func (s *scalingSuite) attachmentClauses() []clause {
	return []clause{
		{"AHookIsMadeAndTakenBackTwice", func() error {
			name, err := s.createGroup(0)
			if err != nil {
				return err
			}
			hook := cluster.LifecycleHook{Group: name, Name: cluster.DrainingHook, Heartbeat: time.Hour}
			if err := s.groups.PutLifecycleHook(s.ctx, hook); err != nil {
				return err
			}
			out, err := s.client.DescribeLifecycleHooks(s.ctx,
				&asg.DescribeLifecycleHooksInput{AutoScalingGroupName: &name})
			if err != nil {
				return err
			}
			return errors.Join(checkEqual("hooks", len(out.LifecycleHooks), 1),
				checkEqual("heartbeat", *out.LifecycleHooks[0].HeartbeatTimeout, 3600),
				s.groups.DeleteLifecycleHook(s.ctx, name, hook.Name),
				s.groups.DeleteLifecycleHook(s.ctx, name, hook.Name))
		}},
		{"APolicyIsMadeAndTakenBackTwice", func() error {
			name, err := s.createGroup(0)
			if err != nil {
				return err
			}
			p := cluster.TrackingPolicy{Group: name, Name: "policy", Namespace: "Berth", Cluster: "c", Provider: "p",
				Target: 90, Warmup: time.Minute}
			if err := s.groups.PutTrackingPolicy(s.ctx, p); err != nil {
				return err
			}
			out, err := s.client.DescribePolicies(s.ctx, &asg.DescribePoliciesInput{AutoScalingGroupName: &name})
			if err != nil {
				return err
			}
			return errors.Join(checkEqual("policies", len(out.ScalingPolicies), 1),
				checkEqual("target", *out.ScalingPolicies[0].TargetTrackingConfiguration.TargetValue, 90),
				s.groups.DeletePolicy(s.ctx, name, p.Name), s.groups.DeletePolicy(s.ctx, name, p.Name))
		}},
		{"AlarmsAndDatapoints", func() error {
			a := cluster.MetricAlarm{Name: "low", Namespace: cluster.DefaultScalingSpace, Cluster: "c", Provider: "p",
				Below: true, Threshold: 80, Times: 15}
			if err := s.metrics.PutMetricAlarm(s.ctx, a); err != nil {
				return err
			}
			point := cluster.Datapoint{Namespace: a.Namespace, Cluster: "c", Provider: "p", Percent: 50, At: time.Now()}
			if err := s.metrics.PutScalingMetrics(s.ctx, []cluster.Datapoint{point}); err != nil {
				return err
			}
			out, err := s.metrics.Client.DescribeAlarms(s.ctx, &cw.DescribeAlarmsInput{AlarmNames: []string{a.Name}})
			if err != nil {
				return err
			}
			m := out.MetricAlarms[0]
			return errors.Join(checkEqual("times", *m.EvaluationPeriods, 15),
				checkEqual("metric", *m.MetricName, cluster.ReservationMetric),
				checkEqual("dimensions", len(m.Dimensions), 2), s.metrics.DeleteAlarms(s.ctx, []string{a.Name, "none"}))
		}},
	}
}

// strictClauses are the clauses that an implementation which only stores what it is told does not
// satisfy.
func (s *scalingSuite) strictClauses() []clause {
	return []clause{
		{"ADesiredCapacityWithinTheBounds", func() error {
			name, err := s.createGroup(0)
			if err != nil {
				return err
			}
			return errors.Join(checkCode(s.groups.SetDesired(s.ctx, name, 6), "ValidationError"),
				checkCode(s.groups.SetSizes(s.ctx, name,
					cluster.SizesChange{Min: new(1), Max: new(2), Desired: new(3)}), "ValidationError"))
		}},
		{"NoMoreThanFiftyInstancesAtOnce", func() error {
			name, err := s.createGroup(0)
			if err != nil {
				return err
			}
			_, err = s.client.SetInstanceProtection(s.ctx, &asg.SetInstanceProtectionInput{
				AutoScalingGroupName: &name, InstanceIds: make([]string, 51), ProtectedFromScaleIn: aws.Bool(true),
			})
			return checkCode(awsapi.CallError(err), "ValidationError")
		}},
		{"ATerminationWaitsForItsHook", func() error {
			g, err := s.createAndDescribe(2)
			if err != nil {
				return err
			}
			hook := cluster.LifecycleHook{Group: g.Name, Name: cluster.DrainingHook, Heartbeat: time.Hour}
			id := g.Instances[0].ID
			err = errors.Join(s.groups.PutLifecycleHook(s.ctx, hook), s.groups.TerminateInstance(s.ctx, id, true),
				s.groups.RecordHeartbeat(s.ctx, g.Name, hook.Name, id))
			if err != nil {
				return err
			}
			held, err := s.describeAgain(g.Name)
			err2 := s.groups.CompleteLifecycleAction(s.ctx, g.Name, hook.Name, id)
			after, err3 := s.describeAgain(g.Name)
			again := s.groups.CompleteLifecycleAction(s.ctx, g.Name, hook.Name, id)
			return errors.Join(err, err2, err3, checkEqual("instances", len(held.Instances), 2),
				checkEqual("lifecycle", held.Instances[0].Lifecycle, "Terminating:Wait"),
				checkEqual("instances after it", len(after.Instances), 1), checkCode(again, "ValidationError"))
		}},
		{"AnAlarmFiresWhereTheMetricIsLow", func() error {
			a := cluster.MetricAlarm{Name: "three", Namespace: cluster.DefaultScalingSpace, Cluster: "c",
				Provider: "three", Below: true, Threshold: 80, Times: 3}
			if err := s.metrics.PutMetricAlarm(s.ctx, a); err != nil {
				return err
			}
			state := func() string {
				out, err := s.metrics.Client.DescribeAlarms(s.ctx,
					&cw.DescribeAlarmsInput{AlarmNames: []string{a.Name}})
				if err != nil {
					return err.Error()
				}
				return string(out.MetricAlarms[0].StateValue)
			}
			states := ""
			for n, percent := range []float64{50, 50, 50, 90} {
				at := time.Date(2026, 11, 21, 10, n, 0, 0, time.UTC)
				if err := s.metrics.PutScalingMetrics(s.ctx,
					[]cluster.Datapoint{{Namespace: a.Namespace, Cluster: "c", Provider: "three", Percent: percent,
						At: at}}); err != nil {
					return err
				}
				states += state() + " "
			}
			return checkEqual("states", states, "INSUFFICIENT_DATA INSUFFICIENT_DATA ALARM OK ")
		}},
		{"APolicyHasTheGroupFollowAMetric", func() error {
			name, err := s.createGroup(0)
			if err != nil {
				return err
			}
			p := cluster.TrackingPolicy{Group: name, Name: "follow", Namespace: "Berth", Cluster: "c",
				Provider: "follow", Target: 100, Warmup: time.Minute}
			if err := s.groups.PutTrackingPolicy(s.ctx, p); err != nil {
				return err
			}
			sizes := ""
			for n, percent := range append([]float64{200, 200, 200, 250, 95}, make([]float64, 15)...) {
				at := time.Date(2026, 11, 21, 10, n, 0, 0, time.UTC)
				if err := s.metrics.PutScalingMetrics(s.ctx,
					[]cluster.Datapoint{{Namespace: "Berth", Cluster: "c", Provider: "follow", Percent: percent,
						At: at}}); err != nil {
					return err
				}
				s.awaitPending()
				g, err := s.describeAgain(name)
				if err != nil {
					return err
				}
				sizes += fmt.Sprint(g.Desired)
			}
			return checkEqual("sizes", sizes, "00255555555555555550")
		}},
		{"ALaunchThatFailedIsTold", func() error {
			name, err := s.createGroup(0)
			if err != nil {
				return err
			}
			if err := s.groups.TagGroup(s.ctx, name, "berth-fleet:launch-failure", "VcpuLimitExceeded"); err != nil {
				return err
			}
			if err := s.groups.SetDesired(s.ctx, name, 1); err != nil {
				return err
			}
			got, err := s.groups.FailedLaunches(s.ctx, name, time.Time{})
			if err != nil || len(got) == 0 {
				return errors.Join(err, errors.New("none has failed"))
			}
			return errors.Join(checkEqual("the code", got[0].Code, "VcpuLimitExceeded"),
				checkEqual("the zone", got[0].Zone, region+"a"))
		}},
	}
}
