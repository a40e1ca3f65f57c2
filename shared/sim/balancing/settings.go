package balancing

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
)

// keptSettings are settings that a target group keeps and describes, and that change nothing here:
// no requests are sent. Tools such as Terraform compare them with what they have set.
type keptSettings struct {
	ProtocolVersion, IpAddressType                        string
	HealthCheckProtocol, HealthCheckPort, HealthCheckPath string
	HealthCheckEnabled                                    *bool
	HealthCheckIntervalSeconds, HealthCheckTimeoutSeconds int
	HealthyThresholdCount, UnhealthyThresholdCount        int
	Matcher                                               matcher
}

// matcher says which answers are healthy.
type matcher struct {
	HttpCode string `xml:",omitempty"`
	GrpcCode string `xml:",omitempty"`
}

// update replaces the settings that the input has.
func (s *keptSettings) update(in keptSettings) {
	s.ProtocolVersion = cmp.Or(in.ProtocolVersion, s.ProtocolVersion)
	s.IpAddressType = cmp.Or(in.IpAddressType, s.IpAddressType)
	s.HealthCheckProtocol = cmp.Or(in.HealthCheckProtocol, s.HealthCheckProtocol)
	s.HealthCheckPort = cmp.Or(in.HealthCheckPort, s.HealthCheckPort)
	s.HealthCheckPath = cmp.Or(in.HealthCheckPath, s.HealthCheckPath)
	s.HealthCheckEnabled = cmp.Or(in.HealthCheckEnabled, s.HealthCheckEnabled)
	s.HealthCheckIntervalSeconds = cmp.Or(in.HealthCheckIntervalSeconds, s.HealthCheckIntervalSeconds)
	s.HealthCheckTimeoutSeconds = cmp.Or(in.HealthCheckTimeoutSeconds, s.HealthCheckTimeoutSeconds)
	s.HealthyThresholdCount = cmp.Or(in.HealthyThresholdCount, s.HealthyThresholdCount)
	s.UnhealthyThresholdCount = cmp.Or(in.UnhealthyThresholdCount, s.UnhealthyThresholdCount)
	s.Matcher = cmp.Or(in.Matcher, s.Matcher)
}

// withDefaults returns the settings with Elastic Load Balancing's defaults for a group's protocol.
// Only groups of Application Load Balancers have a protocol version, a path and a matcher.
func (s keptSettings) withDefaults(protocol string) keptSettings {
	defaults := keptSettings{
		IpAddressType: "ipv4", HealthCheckProtocol: "TCP", HealthCheckPort: "traffic-port",
		HealthCheckEnabled:         new(true),
		HealthCheckIntervalSeconds: 30, HealthCheckTimeoutSeconds: 10, HealthyThresholdCount: 5,
		UnhealthyThresholdCount: 2,
	}
	if strings.HasPrefix(protocol, "HTTP") {
		defaults.ProtocolVersion, defaults.HealthCheckProtocol, defaults.HealthCheckTimeoutSeconds = "HTTP1", "HTTP", 5
	}
	check := cmp.Or(s.HealthCheckProtocol, defaults.HealthCheckProtocol)
	switch {
	case s.ProtocolVersion == "GRPC":
		defaults.HealthCheckPath, defaults.Matcher.GrpcCode = "/AWS.ALB/healthcheck", "12"
	case strings.HasPrefix(check, "HTTP"):
		defaults.HealthCheckPath, defaults.Matcher.HttpCode = "/", "200"
	}
	defaults.update(s)
	return defaults
}

// modifyTargetGroup changes the health check's settings.
func (a *groupAPI) modifyTargetGroup(_ context.Context, in *struct {
	TargetGroupArn string
	keptSettings
}) (any, error) {
	var out xmlResult
	err := a.groups.kernel.Change(func(now time.Time) error {
		g, err := a.groups.findTargetGroup(in.TargetGroupArn, now)
		if err != nil {
			return err
		}
		g.keptSettings.update(in.keptSettings)
		a.groups.kernel.SaveRow(g)
		out.Groups = []xmlGroup{g.describeGroup()}
		return nil
	})
	return &out, err
}

// delayAttribute is the one attribute of target groups that is simulated.
const delayAttribute = "deregistration_delay.timeout_seconds"

// attributeDefaults are the other attributes that are kept and described, by name, with Elastic
// Load Balancing's defaults.
var attributeDefaults = map[string]string{
	"load_balancing.algorithm.anomaly_mitigation":                                    "off",
	"load_balancing.algorithm.type":                                                  "round_robin",
	"load_balancing.cross_zone.enabled":                                              "use_load_balancer_configuration",
	"slow_start.duration_seconds":                                                    "0",
	"stickiness.app_cookie.cookie_name":                                              "",
	"stickiness.app_cookie.duration_seconds":                                         "86400",
	"stickiness.enabled":                                                             "false",
	"stickiness.lb_cookie.duration_seconds":                                          "86400",
	"stickiness.type":                                                                "lb_cookie",
	"target_group_health.dns_failover.minimum_healthy_targets.count":                 "1",
	"target_group_health.dns_failover.minimum_healthy_targets.percentage":            "off",
	"target_group_health.unhealthy_state_routing.minimum_healthy_targets.count":      "1",
	"target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage": "off",
	"deregistration_delay.connection_termination.enabled":                            "false",
	"preserve_client_ip.enabled":                                                     "true",
	"proxy_protocol_v2.enabled":                                                      "false",
	"target_health_state.unhealthy.connection_termination.enabled":                   "true",
	"target_health_state.unhealthy.draining_interval_seconds":                        "0",
}

// networkAttribute reports whether only groups of Network Load Balancers have an attribute.
func networkAttribute(name string) bool {
	return strings.HasPrefix(name, "deregistration_delay.c") || strings.HasPrefix(name, "p") ||
		strings.HasPrefix(name, "target_health_state.")
}

// describeAttributes returns all attributes that a group of its protocol has.
func (g *targetGroup) describeAttributes() []xmlAttribute {
	out := []xmlAttribute{{delayAttribute, strconv.Itoa(int(g.Delay / time.Second))}}
	for _, name := range slices.Sorted(maps.Keys(attributeDefaults)) {
		value, set := g.Attributes[name]
		if !set && networkAttribute(name) == strings.HasPrefix(g.Protocol, "HTTP") {
			continue
		}
		if !set {
			value = attributeDefaults[name]
		}
		out = append(out, xmlAttribute{name, value})
	}
	return out
}

// setAttributes changes all attributes or none. It refuses those that Elastic Load Balancing does
// not have.
func (g *targetGroup) setAttributes(attributes []xmlAttribute) error {
	delay, kept := g.Delay, maps.Clone(g.Attributes)
	if kept == nil {
		kept = map[string]string{}
	}
	for _, attribute := range attributes {
		if _, known := attributeDefaults[attribute.Key]; known {
			kept[attribute.Key] = attribute.Value
			continue
		}
		seconds, err := strconv.ParseUint(attribute.Value, 10, 16)
		delay = time.Duration(seconds) * time.Second
		if attribute.Key != delayAttribute || err != nil || delay > maxDelay {
			return cluster.Errorf("ValidationError", "the attribute %.64q is not known here, or its value no time",
				attribute.Key)
		}
	}
	g.Delay, g.Attributes = delay, kept
	return nil
}
