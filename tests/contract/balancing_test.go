package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	cw "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicediscovery"
	sdtypes "github.com/aws/aws-sdk-go-v2/service/servicediscovery/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"berth/shared/awsapi/balancing"
	"berth/shared/awsapi/cloudwatch"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

// A balancer is an implementation of Elastic Load Balancing, Cloud Map and CloudWatch.
type balancer struct {
	config aws.Config
	// machine is a running EC2 instance, vpc its network, namespace one of Cloud Map.
	machine, vpc, namespace string
	// awaitPending lets pending changes happen.
	awaitPending func()
	// cloudWatch changes the options of CloudWatch's client.
	cloudWatch func(*cw.Options)
	// knownDifferences are the clauses that it does not satisfy, with the reason.
	knownDifferences map[string]string
}

func configFor(endpoint string) aws.Config {
	return aws.Config{Region: region, BaseEndpoint: &endpoint, Credentials: testCredentials}
}

// simulatedBalancer returns the simulated AWS behind its HTTP endpoint.
func simulatedBalancer(t *testing.T) *balancer {
	t.Helper()
	loop := embedded.NewVirtualLoop(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	f, err := sim.Open(sim.Options{Clock: clock{loop}, Account: cluster.Account{ID: "123456789012", Region: region}})
	if err != nil {
		t.Fatal(err)
	}
	if status, answer := f.ECS.Endpoint().ServeOperation(t.Context(), "CreateCluster",
		[]byte(`{"clusterName":"contract"}`)); status != http.StatusOK {
		t.Fatalf("%s", answer)
	}
	ids, err := f.Machines.AddInstances(home, 1, ec2.Machine{Type: "m5.large"})
	if err != nil {
		t.Fatal(err)
	}
	instances, err := f.ECS.DescribeInstances(t.Context(), home, ids)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f.ServeProtocols(f.ECS.Endpoint()))
	t.Cleanup(server.Close)
	return &balancer{
		config: configFor(server.URL), machine: instances[0].EC2InstanceID, vpc: "vpc-1", namespace: "ns-1",
		awaitPending: func() { loop.RunUntil(loop.Now().Add(10 * time.Minute)) },
	}
}

// motoBalancer returns moto.
func motoBalancer(t *testing.T) *balancer {
	t.Helper()
	endpoint := motoEndpoint(t)
	id, vpc, err := runInstance(t.Context(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{
		config: configFor(endpoint), machine: id, vpc: vpc, awaitPending: func() {},
		cloudWatch: func(o *cw.Options) { // moto does not know CBOR; the adapter is the same
			o.Protocol = awsquery.New(&smithy.ServiceSchema{Version: "2010-08-01"})
		},
		knownDifferences: map[string]string{
			"WhatIsRegisteredIsDescribed":                     "moto keeps one port of each machine",
			"WhatWasTakenOutIsGoneInTheEnd":                   "moto refuses to take out what is not there, which Elastic Load Balancing documents to succeed",
			"WhatIsBeingTakenOutIsNeitherHealthyNorUnhealthy": "moto drains nothing",
			"ATargetWhereNothingRunsIsUnhealthyAndSaysWhy":    "moto's targets are always healthy",
			"NoSuchInstanceIsRefused":                         "moto checks no target",
			"AnAddressInAGroupOfInstancesIsRefused":           "moto checks no target",
			"ADrainingInstanceIsNeitherHealthyNorUnhealthy":   "moto drains nothing",
			"AnInstanceWhereNothingRunsIsUnhealthyAndSaysWhy": "moto's instances are always InService",
			"NoClassicLoadBalancer":                           "moto fails with status 500",
			"NoSuchInstanceOfAClassicLoadBalancerIsRefused":   "moto checks no instance",
		},
	}
	out, err := servicediscovery.NewFromConfig(b.config).CreateHttpNamespace(t.Context(),
		&servicediscovery.CreateHttpNamespaceInput{Name: aws.String("contract")})
	if err != nil {
		t.Fatal(err)
	}
	operation, err := servicediscovery.NewFromConfig(b.config).GetOperation(t.Context(),
		&servicediscovery.GetOperationInput{OperationId: out.OperationId})
	if err != nil {
		t.Fatal(err)
	}
	b.namespace = operation.Operation.Targets[string(sdtypes.OperationTargetTypeNamespace)]
	return b
}

func TestBalancing(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *balancer{"Moto": motoBalancer, "Fleet": simulatedBalancer} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			s := &balancingSuite{
				balancer: b, ctx: t.Context(), elb: elb.NewFromConfig(b.config),
				discovery: servicediscovery.NewFromConfig(b.config),
				groups:    balancing.NewLoadBalancers(b.config), registries: balancing.NewRegistries(b.config),
				alarms: cloudwatch.NewAlarms(b.config),
			}
			if b.cloudWatch != nil {
				s.alarms.Client = cw.NewFromConfig(b.config, b.cloudWatch)
			}
			s.metrics = s.alarms.Client
			checkClauses(t, b.knownDifferences,
				slices.Concat(s.groupClauses(), s.classicClauses(), s.registryClauses(), s.alarmClauses()))
		})
	}
}

// checkClauses checks that each clause is satisfied or on the list of differences, and not both.
func checkClauses(t *testing.T, list map[string]string, clauses []clause) {
	t.Helper()
	named := map[string]bool{}
	for _, c := range clauses {
		named[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			why, differs := list[c.name]
			err := c.holds()
			switch {
			case err != nil && !differs:
				t.Error(err)
			case err == nil && differs:
				t.Errorf("it keeps this now: take it off the list (%s)", why)
			case differs:
				t.Logf("it does otherwise, as %s: %v", why, err)
			}
		})
	}
	for name := range list {
		if !named[name] {
			t.Errorf("there is no clause %s", name)
		}
	}
}

// A balancingSuite is the contract, on one implementation.
type balancingSuite struct {
	*balancer
	ctx        context.Context
	elb        *elb.Client
	discovery  *servicediscovery.Client
	metrics    *cw.Client
	groups     *balancing.LoadBalancers
	registries *balancing.Registries
	alarms     *cloudwatch.Alarms
	n          int
}

// createTargetGroup creates a target group. moto sometimes closes a connection before it answers, and
// the SDK's second attempt then finds what the first has created.
func (s *balancingSuite) createTargetGroup(kind elbtypes.TargetTypeEnum) (string, error) {
	s.n++
	name := fmt.Sprint("group-", s.n)
	out, err := s.elb.CreateTargetGroup(s.ctx, &elb.CreateTargetGroupInput{
		Name: &name, Protocol: elbtypes.ProtocolEnumHttp, Port: aws.Int32(80), VpcId: &s.vpc, TargetType: kind,
	})
	var exists *elbtypes.DuplicateTargetGroupNameException
	if errors.As(err, &exists) {
		found, err := s.elb.DescribeTargetGroups(s.ctx, &elb.DescribeTargetGroupsInput{Names: []string{name}})
		if err != nil {
			return "", err
		}
		return *found.TargetGroups[0].TargetGroupArn, nil
	}
	if err != nil {
		return "", err
	}
	return *out.TargetGroups[0].TargetGroupArn, nil
}

func (s *balancingSuite) registeredGroup(ports ...int) (arn string, err error) {
	if arn, err = s.createTargetGroup(elbtypes.TargetTypeEnumInstance); err != nil {
		return "", err
	}
	var targets []cluster.Address
	for _, p := range ports {
		targets = append(targets, cluster.Address{Host: s.machine, Port: p})
	}
	return arn, s.groups.RegisterTargets(s.ctx, arn, targets)
}

const noGroup = "arn:aws:elasticloadbalancing:" + region + ":123456789012:targetgroup/none/0123456789abcdef"

func (s *balancingSuite) groupClauses() []clause {
	return []clause{
		{"WhatIsRegisteredIsDescribed", func() error {
			arn, err := s.registeredGroup(8080, 8081)
			if err != nil {
				return err
			}
			if err := s.groups.RegisterTargets(s.ctx, arn,
				[]cluster.Address{{Host: s.machine, Port: 8080}}); err != nil {
				return err // the second time
			}
			got, err := s.groups.TargetHealth(s.ctx, arn)
			_, here := got[cluster.Address{Host: s.machine, Port: 8081}]
			return errors.Join(err, checkEqual("the number of targets", len(got), 2),
				checkEqual("its being there", here, true))
		}},
		{"ATargetOfAnAddress", func() error {
			arn, err := s.createTargetGroup(elbtypes.TargetTypeEnumIp)
			if err != nil {
				return err
			}
			at := cluster.Address{Host: "10.0.0.7", Port: 80}
			err = s.groups.RegisterTargets(s.ctx, arn, []cluster.Address{at})
			got, err2 := s.groups.TargetHealth(s.ctx, arn)
			_, here := got[at]
			return errors.Join(err, err2, checkEqual("its being there", here, true))
		}},
		{"WhatWasTakenOutIsGoneInTheEnd", func() error {
			arn, err := s.registeredGroup(8080, 8081)
			if err != nil {
				return err
			}
			for range 2 { // the second time it no longer exists
				if err := s.groups.DeregisterTargets(s.ctx, arn,
					[]cluster.Address{{Host: s.machine, Port: 8080}}); err != nil {
					return err
				}
				s.awaitPending()
			}
			got, err := s.groups.TargetHealth(s.ctx, arn)
			return errors.Join(err, checkEqual("the number of targets", len(got), 1))
		}},
		{"WhatIsBeingTakenOutIsNeitherHealthyNorUnhealthy", func() error {
			arn, err := s.registeredGroup(8080)
			if err != nil {
				return err
			}
			at := cluster.Address{Host: s.machine, Port: 8080}
			err = s.groups.DeregisterTargets(s.ctx, arn, []cluster.Address{at})
			got, err2 := s.groups.TargetHealth(s.ctx, arn)
			health, here := got[at]
			return errors.Join(err, err2, checkEqual("its health", health.Health, cluster.UnknownHealth),
				checkEqual("its being there", here, true))
		}},
		{"ATargetWhereNothingRunsIsUnhealthyAndSaysWhy", func() error {
			arn, err := s.registeredGroup(8080)
			if err != nil {
				return err
			}
			s.awaitPending()
			got, err := s.groups.TargetHealth(s.ctx, arn)
			health := got[cluster.Address{Host: s.machine, Port: 8080}]
			return errors.Join(err, checkEqual("its health", health.Health, cluster.Unhealthy),
				checkEqual("there being a reason", health.Reason != "", true))
		}},
		{"TheDeregistrationDelay", func() error {
			arn, err := s.createTargetGroup(elbtypes.TargetTypeEnumInstance)
			if err != nil {
				return err
			}
			before, err := s.groups.DeregistrationDelay(s.ctx, arn)
			_, err2 := s.elb.ModifyTargetGroupAttributes(s.ctx, &elb.ModifyTargetGroupAttributesInput{
				TargetGroupArn: &arn,
				Attributes:     []elbtypes.TargetGroupAttribute{{Key: aws.String("deregistration_delay.timeout_seconds"), Value: aws.String("17")}},
			})
			after, err3 := s.groups.DeregistrationDelay(s.ctx, arn)
			return errors.Join(err, err2, err3, checkEqual("the delay at first", before, 300*time.Second),
				checkEqual("the delay", after, 17*time.Second))
		}},
		{"NoTargetGroup", func() error {
			at := []cluster.Address{{Host: s.machine, Port: 80}}
			_, err := s.groups.TargetHealth(s.ctx, noGroup)
			_, err2 := s.groups.DeregistrationDelay(s.ctx, noGroup)
			return errors.Join(checkCode(s.groups.RegisterTargets(s.ctx, noGroup, at), cluster.CodeTargetGroupNotFound),
				checkCode(s.groups.DeregisterTargets(s.ctx, noGroup, at), cluster.CodeTargetGroupNotFound),
				checkCode(err, cluster.CodeTargetGroupNotFound), checkCode(err2, cluster.CodeTargetGroupNotFound))
		}},
		{"NoSuchInstanceIsRefused", func() error {
			arn, err := s.createTargetGroup(elbtypes.TargetTypeEnumInstance)
			if err != nil {
				return err
			}
			return checkCode(s.groups.RegisterTargets(s.ctx, arn,
				[]cluster.Address{{Host: "i-0123456789abcdef0", Port: 80}}), cluster.CodeInvalidTarget)
		}},
		{"AnAddressInAGroupOfInstancesIsRefused", func() error {
			arn, err := s.createTargetGroup(elbtypes.TargetTypeEnumInstance)
			if err != nil {
				return err
			}
			return checkCode(s.groups.RegisterTargets(s.ctx, arn, []cluster.Address{{Host: "10.0.0.7", Port: 80}}),
				"ValidationError", cluster.CodeInvalidTarget)
		}},
	}
}

// createRegistry creates a service of Cloud Map.
func (s *balancingSuite) createRegistry(checked bool) (string, error) {
	s.n++
	in := &servicediscovery.CreateServiceInput{Name: aws.String(fmt.Sprint("service-", s.n)), NamespaceId: &s.namespace}
	if checked {
		in.HealthCheckCustomConfig = &sdtypes.HealthCheckCustomConfig{}
	}
	out, err := s.discovery.CreateService(s.ctx, in)
	if err != nil {
		return "", err
	}
	return *out.Service.Arn, nil
}

const noRegistry = "arn:aws:servicediscovery:" + region + ":123456789012:service/srv-0123456789abcdef"

func (s *balancingSuite) registryClauses() []clause {
	entered := func(checked bool) (string, error) {
		arn, err := s.createRegistry(checked)
		if err != nil {
			return "", err
		}
		return arn, s.registries.RegisterInstance(s.ctx, arn, "t-1", cluster.Address{Host: "10.0.0.7", Port: 80})
	}
	return []clause{
		{"AnInstanceHasItsAddress", func() error {
			arn, err := entered(true)
			if err != nil {
				return err
			}
			out, err := s.discovery.ListInstances(s.ctx,
				&servicediscovery.ListInstancesInput{ServiceId: aws.String(cluster.LastPart(arn))})
			if err != nil || len(out.Instances) != 1 {
				return fmt.Errorf("%+v, %w", out, err)
			}
			i := out.Instances[0]
			return errors.Join(checkEqual("its id", *i.Id, "t-1"),
				checkEqual("its address", i.Attributes["AWS_INSTANCE_IPV4"], "10.0.0.7"),
				checkEqual("its port", i.Attributes["AWS_INSTANCE_PORT"], "80"))
		}},
		{"AnInstanceIsHealthyUnlessSomebodySaysOtherwise", func() error {
			arn, err := entered(true)
			if err != nil {
				return err
			}
			before, err := s.registries.InstancesHealth(s.ctx, arn)
			_, err2 := s.discovery.UpdateInstanceCustomHealthStatus(s.ctx,
				&servicediscovery.UpdateInstanceCustomHealthStatusInput{
					ServiceId: aws.String(cluster.LastPart(arn)), InstanceId: aws.String("t-1"),
					Status: sdtypes.CustomHealthStatusUnhealthy,
				})
			after, err3 := s.registries.InstancesHealth(s.ctx, arn)
			return errors.Join(err, err2, err3, checkEqual("its health at first", before["t-1"].Health,
				cluster.Healthy),
				checkEqual("its health", after["t-1"].Health, cluster.Unhealthy))
		}},
		{"WhereNoHealthIsCheckedAnInstanceIsHealthy", func() error {
			arn, err := entered(false)
			if err != nil {
				return err
			}
			got, err := s.registries.InstancesHealth(s.ctx, arn)
			return errors.Join(err, checkEqual("its health", got["t-1"].Health, cluster.Healthy))
		}},
		{"WhatWasTakenOutOfCloudMapIsGone", func() error {
			arn, err := entered(true)
			if err != nil {
				return err
			}
			err = s.registries.DeregisterInstance(s.ctx, arn, "t-1")
			got, err2 := s.registries.InstancesHealth(s.ctx, arn)
			again := s.registries.DeregisterInstance(s.ctx, arn, "t-1")
			return errors.Join(err, err2, checkEqual("the number of instances", len(got), 0),
				checkCode(again, cluster.CodeEntryNotFound))
		}},
		{"NoCloudMapService", func() error {
			_, err := s.registries.InstancesHealth(s.ctx, noRegistry)
			return errors.Join(
				checkCode(s.registries.RegisterInstance(s.ctx, noRegistry, "t-1", cluster.Address{Host: "10.0.0.7"}),
					cluster.CodeRegistryNotFound),
				checkCode(err, cluster.CodeRegistryNotFound),
			)
		}},
	}
}

func (s *balancingSuite) alarmClauses() []clause {
	put := func(name string) error {
		_, err := s.metrics.PutMetricAlarm(s.ctx, &cw.PutMetricAlarmInput{
			AlarmName: &name, Namespace: aws.String("Berth"), MetricName: aws.String("Errors"), Period: aws.Int32(60),
			EvaluationPeriods: aws.Int32(3),
			Threshold:         aws.Float64(1), ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold,
			Statistic: cwtypes.StatisticSum,
		})
		return err
	}
	set := func(name string, state cwtypes.StateValue) error {
		_, err := s.metrics.SetAlarmState(s.ctx, &cw.SetAlarmStateInput{AlarmName: &name, StateValue: state,
			StateReason: aws.String("a test")})
		return err
	}
	return []clause{
		{"AnAlarmSaysItsStateAndHowLongItTakes", func() error {
			if err := errors.Join(put("errors"), set("errors", cwtypes.StateValueAlarm), put("slow"),
				set("slow", cwtypes.StateValueOk)); err != nil {
				return err
			}
			got, err := s.alarms.DescribeAlarms(s.ctx, []string{"errors", "slow", "nobody's"})
			if err != nil || len(got) != 2 {
				return fmt.Errorf("%+v, %w", got, err)
			}
			fires := map[string]bool{}
			for _, a := range got {
				fires[a.Name] = a.InAlarm
				if a.Window != 3*time.Minute || a.Since.IsZero() {
					return fmt.Errorf("alarm %+v", a)
				}
			}
			return errors.Join(checkEqual("the one's being in ALARM", fires["errors"], true),
				checkEqual("the other's", fires["slow"], false))
		}},
	}
}
