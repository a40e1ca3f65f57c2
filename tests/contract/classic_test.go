package contract

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"berth/shared/awsapi/balancing"
	"berth/shared/cluster"
)

// createClassic creates a Classic Load Balancer whose listener leads to port 8080 of its instances,
// and returns how it is named.
func (s *balancingSuite) createClassic() (balancer string, err error) {
	s.n++
	name := fmt.Sprint("classic-", s.n)
	_, err = s.groups.Classic.Client.CreateLoadBalancer(s.ctx, &classic.CreateLoadBalancerInput{
		LoadBalancerName: &name, AvailabilityZones: []string{region + "a"},
		Listeners: []classictypes.Listener{{
			Protocol: aws.String("HTTP"), LoadBalancerPort: 80, InstancePort: aws.Int32(8080),
		}},
	})
	return cluster.ClassicBalancer(name), err
}

func (s *balancingSuite) registeredClassic() (balancer string, err error) {
	if balancer, err = s.createClassic(); err != nil {
		return "", err
	}
	return balancer, s.groups.RegisterTargets(s.ctx, balancer, s.classicInstance())
}

// classicInstance is the machine as Classic Load Balancers take it.
func (s *balancingSuite) classicInstance() []cluster.Address {
	return []cluster.Address{{Host: s.machine}}
}

// drainClassic switches connection draining on.
func (s *balancingSuite) drainClassic(balancer string, timeout int32) error {
	name, _ := cluster.ClassicName(balancer)
	_, err := s.groups.Classic.Client.ModifyLoadBalancerAttributes(s.ctx, &classic.ModifyLoadBalancerAttributesInput{
		LoadBalancerName: &name, LoadBalancerAttributes: &classictypes.LoadBalancerAttributes{
			ConnectionDraining: &classictypes.ConnectionDraining{Enabled: true, Timeout: &timeout},
		},
	})
	return err
}

// classicClauses are what Berth relies on of Classic Load Balancers.
func (s *balancingSuite) classicClauses() []clause {
	noBalancer := cluster.ClassicBalancer("none")
	return []clause{
		{"AnInstanceOfAClassicLoadBalancerIsDescribed", func() error {
			balancer, err := s.registeredClassic()
			if err != nil {
				return err
			}
			again := s.groups.RegisterTargets(s.ctx, balancer, s.classicInstance())
			got, err := s.groups.TargetHealth(s.ctx, balancer)
			_, here := got[s.classicInstance()[0]]
			return errors.Join(again, err, checkEqual("the number of instances", len(got), 1),
				checkEqual("its being there", here, true))
		}},
		{"AnInstanceIsGoneAtOnceWithoutDraining", func() error {
			balancer, err := s.registeredClassic()
			if err != nil {
				return err
			}
			err = s.groups.DeregisterTargets(s.ctx, balancer, s.classicInstance())
			again := s.groups.DeregisterTargets(s.ctx, balancer, s.classicInstance())
			got, err2 := s.groups.TargetHealth(s.ctx, balancer)
			return errors.Join(err, again, err2, checkEqual("the number of instances", len(got), 0))
		}},
		{"ADrainingInstanceIsNeitherHealthyNorUnhealthy", func() error {
			balancer, err := s.registeredClassic()
			if err != nil {
				return err
			}
			err = s.drainClassic(balancer, 60)
			err2 := s.groups.DeregisterTargets(s.ctx, balancer, s.classicInstance())
			got, err3 := s.groups.TargetHealth(s.ctx, balancer)
			health, here := got[s.classicInstance()[0]]
			return errors.Join(err, err2, err3, checkEqual("its health", health.Health, cluster.UnknownHealth),
				checkEqual("its being there", here, true))
		}},
		{"AnInstanceWhereNothingRunsIsUnhealthyAndSaysWhy", func() error {
			balancer, err := s.registeredClassic()
			if err != nil {
				return err
			}
			s.awaitPending()
			got, err := s.groups.TargetHealth(s.ctx, balancer)
			health := got[s.classicInstance()[0]]
			return errors.Join(err, checkEqual("its health", health.Health, cluster.Unhealthy),
				checkEqual("there being a reason", health.Reason != "", true))
		}},
		{"TheTimeoutOfConnectionDraining", func() error {
			balancer, err := s.createClassic()
			if err != nil {
				return err
			}
			before, err := s.groups.DeregistrationDelay(s.ctx, balancer)
			err2 := s.drainClassic(balancer, 17)
			after, err3 := s.groups.DeregistrationDelay(s.ctx, balancer)
			return errors.Join(err, err2, err3, checkEqual("the timeout at first", before, 0),
				checkEqual("the timeout", after, 17*time.Second))
		}},
		{"NoClassicLoadBalancer", func() error {
			once := balancing.LoadBalancers{Classic: &balancing.ClassicBalancers{
				Client: classic.New(s.groups.Classic.Client.Options(),
					func(o *classic.Options) { o.Retryer = aws.NopRetryer{} }), // moto answers with status 500
			}}
			_, err := once.TargetHealth(s.ctx, noBalancer)
			_, err2 := once.DeregistrationDelay(s.ctx, noBalancer)
			return errors.Join(
				checkCode(once.RegisterTargets(s.ctx, noBalancer, s.classicInstance()), cluster.CodeBalancerNotFound),
				checkCode(once.DeregisterTargets(s.ctx, noBalancer, s.classicInstance()), cluster.CodeBalancerNotFound),
				checkCode(err, cluster.CodeBalancerNotFound), checkCode(err2, cluster.CodeBalancerNotFound))
		}},
		{"NoSuchInstanceOfAClassicLoadBalancerIsRefused", func() error {
			balancer, err := s.createClassic()
			if err != nil {
				return err
			}
			return checkCode(s.groups.RegisterTargets(s.ctx, balancer,
				[]cluster.Address{{Host: "i-0123456789abcdef0"}}), cluster.CodeInvalidInstance)
		}},
	}
}
