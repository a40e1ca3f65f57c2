package sim_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

const classicVersion = "2012-06-01"

// withClassic makes a Classic Load Balancer front, whose listeners lead to port 8080 of instances,
// and registers an instance with it that runs a task with that port.
func (w *world) withClassic() (task string, instance cluster.Address) {
	w.t.Helper()
	c := container("app", 128, 128)
	c.PortMappings = []types.PortMapping{{ContainerPort: new(int32(80)), HostPort: new(int32(8080))}}
	w.register("edge", c)
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	task = w.start("edge", node)[0].ID
	w.clock.advance(5 * time.Second)
	w.form(classicVersion, url.Values{
		"Action": {"CreateLoadBalancer"}, "LoadBalancerName": {"front"}, "AvailabilityZones.member.1": {"eu-west-1a"},
		"Listeners.member.1.Protocol": {"HTTP"}, "Listeners.member.1.LoadBalancerPort": {"80"},
		"Listeners.member.1.InstancePort": {"8080"},
	})
	instance = cluster.Address{Host: w.instance(node).EC2InstanceID}
	check(w.t, w.LoadBalancers().RegisterTargets(ctx, cluster.ClassicBalancer("front"), []cluster.Address{instance}))
	return task, instance
}

// classicHealth returns what the Classic Load Balancer says of an instance.
func (w *world) classicHealth(instance cluster.Address) cluster.TargetHealth {
	w.t.Helper()
	got, err := w.LoadBalancers().TargetHealth(ctx, cluster.ClassicBalancer("front"))
	check(w.t, err)
	health, here := got[instance]
	if !here {
		health.Reason = "not there"
	}
	return health
}

const failedChecks = "Instance has failed at least the UnhealthyThreshold number of health checks consecutively."

// The health of an instance follows from what runs at the port that its load balancer checks.
func TestClassicLoadBalancer(t *testing.T) {
	t.Run("BecomesHealthyAfterAWhile", func(t *testing.T) {
		w := newWorld(t, sim.Options{HealthyAfter: 30 * time.Second})
		_, at := w.withClassic()
		w.clock.advance(29 * time.Second)
		expect(t, "health", w.classicHealth(at),
			cluster.TargetHealth{Reason: "Instance registration is still in progress."})
		w.clock.advance(time.Second)
		expect(t, "health", w.classicHealth(at).Health, cluster.Healthy)
	})
	t.Run("FailsWithItsTask", func(t *testing.T) {
		w := newWorld(t, sim.Options{})
		task, at := w.withClassic()
		w.clock.advance(time.Minute)
		check(t, w.SetTaskHealth(task, false))
		expect(t, "health", w.classicHealth(at), cluster.TargetHealth{Health: cluster.Unhealthy, Reason: failedChecks})
		check(t, w.SetTaskHealth(task, true))
		expect(t, "health", w.classicHealth(at).Health, cluster.Healthy)
		check(t, w.Machines.CrashTask(task, 1))
		expect(t, "health", w.classicHealth(at), cluster.TargetHealth{Health: cluster.Unhealthy, Reason: failedChecks})
	})
	t.Run("ChecksThePortThatItIsTold", func(t *testing.T) {
		w := newWorld(t, sim.Options{})
		_, at := w.withClassic()
		w.clock.advance(time.Minute)
		w.form(classicVersion, url.Values{"Action": {"ConfigureHealthCheck"}, "LoadBalancerName": {"front"},
			"HealthCheck.Target": {"HTTP:9999/ready"}})
		expect(t, "health", w.classicHealth(at).Health, cluster.Unhealthy)
		w.form(classicVersion, url.Values{"Action": {"ConfigureHealthCheck"}, "LoadBalancerName": {"front"},
			"HealthCheck.Target": {"HTTP:8080/ready"}})
		expect(t, "health", w.classicHealth(at).Health, cluster.Healthy)
	})
	t.Run("DrainsAsLongAsItIsTold", func(t *testing.T) {
		w, path := storedWorld(t)
		_, at := w.withClassic()
		w.form(classicVersion, url.Values{"Action": {"ModifyLoadBalancerAttributes"}, "LoadBalancerName": {"front"},
			"LoadBalancerAttributes.ConnectionDraining.Enabled": {"true"},
			"LoadBalancerAttributes.ConnectionDraining.Timeout": {"60"}})
		w.clock.advance(time.Minute)
		check(t, w.LoadBalancers().DeregisterTargets(ctx, cluster.ClassicBalancer("front"), []cluster.Address{at}))
		w.clock.advance(59 * time.Second)
		leaving := cluster.TargetHealth{Reason: "Instance deregistration currently in progress."}
		expect(t, "health", w.classicHealth(at), leaving)
		expect(t, "health after a kill", w.killed(path, 0).classicHealth(at), leaving)
		w.clock.advance(time.Second)
		expect(t, "health", w.classicHealth(at).Reason, "not there")
	})
	t.Run("IsDescribedAsToolsHaveSetIt", func(t *testing.T) {
		w := newWorld(t, sim.Options{})
		w.withClassic()
		ask := func(action string, fields url.Values) string {
			t.Helper()
			fields.Set("Action", action)
			fields.Set("LoadBalancerName", "front")
			return w.form(classicVersion, fields)
		}
		ask("ModifyLoadBalancerAttributes", url.Values{
			"LoadBalancerAttributes.ConnectionDraining.Enabled":     {"true"},
			"LoadBalancerAttributes.ConnectionDraining.Timeout":     {"60"},
			"LoadBalancerAttributes.ConnectionSettings.IdleTimeout": {"7"},
		})
		ask("ModifyLoadBalancerAttributes", url.Values{
			"LoadBalancerAttributes.ConnectionDraining.Enabled": {"false"}, // the timeout stays
		})
		ask("EnableAvailabilityZonesForLoadBalancer", url.Values{"AvailabilityZones.member.1": {"eu-west-1b"}})
		ask("DisableAvailabilityZonesForLoadBalancer", url.Values{"AvailabilityZones.member.1": {"eu-west-1a"}})
		ask("AttachLoadBalancerToSubnets", url.Values{"Subnets.member.1": {"subnet-1"},
			"Subnets.member.2": {"subnet-2"}})
		ask("DetachLoadBalancerFromSubnets", url.Values{"Subnets.member.1": {"subnet-1"}})
		ask("ApplySecurityGroupsToLoadBalancer", url.Values{"SecurityGroups.member.1": {"sg-1"}})
		ask("CreateLoadBalancerListeners", url.Values{"Listeners.member.1.Protocol": {"TCP"},
			"Listeners.member.1.LoadBalancerPort": {"443"}, "Listeners.member.1.InstancePort": {"8443"}})
		ask("DeleteLoadBalancerListeners", url.Values{"LoadBalancerPorts.member.1": {"80"}})
		w.form(classicVersion, url.Values{"Action": {"AddTags"}, "LoadBalancerNames.member.1": {"front"},
			"Tags.member.1.Key": {"team"}, "Tags.member.1.Value": {"shop"}, "Tags.member.2.Key": {"gone"}})
		w.form(classicVersion, url.Values{"Action": {"RemoveTags"}, "LoadBalancerNames.member.1": {"front"},
			"Tags.member.1.Key": {"gone"}})
		got := w.form(classicVersion, url.Values{"Action": {"DescribeLoadBalancers"}}) +
			ask("DescribeLoadBalancerAttributes", url.Values{}) +
			w.form(classicVersion, url.Values{"Action": {"DescribeTags"}, "LoadBalancerNames.member.1": {"front"}})
		for _, text := range []string{
			"<Enabled>false</Enabled><Timeout>60<", "<IdleTimeout>7<", "<Key>elb.http.desyncmitigationmode<",
			"<AvailabilityZones><member>eu-west-1b</member></AvailabilityZones>",
			"<Subnets><member>subnet-2</member></Subnets>", "<SecurityGroups><member>sg-1</member></SecurityGroups>",
			"<ListenerDescriptions><member><Listener><Protocol>TCP</Protocol><LoadBalancerPort>443<",
			"<Tags><member><Key>team</Key><Value>shop</Value></member></Tags>",
		} {
			if !strings.Contains(got, text) {
				t.Errorf("it is described without %s: %s", text, got)
			}
		}
	})
	t.Run("DrainsNothingByDefault", func(t *testing.T) {
		w := newWorld(t, sim.Options{})
		_, at := w.withClassic()
		check(t, w.LoadBalancers().DeregisterTargets(ctx, cluster.ClassicBalancer("front"), []cluster.Address{at}))
		expect(t, "health", w.classicHealth(at).Reason, "not there")
	})
}
