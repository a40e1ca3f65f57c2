package autoscaling

import (
	"cmp"
	"slices"
)

// keptSettings are settings that a group keeps and describes, and that change nothing here: nothing
// is simulated of what they govern. Tools such as Terraform set them always, and compare them
// afterwards with what they have set.
type keptSettings struct {
	CapacityRebalance                           *bool `json:",omitempty"`
	DefaultCooldown, DefaultInstanceWarmup      *int  `json:",omitempty"`
	HealthCheckGracePeriod, MaxInstanceLifetime *int  `json:",omitempty"`
	HealthCheckType, ServiceLinkedRoleARN       string
	TerminationPolicies                         []string `json:",omitempty"`
}

// xmlSettings are the settings in an answer.
type xmlSettings struct {
	DefaultCooldown        int
	DefaultInstanceWarmup  *int
	HealthCheckType        string
	HealthCheckGracePeriod int
	MaxInstanceLifetime    *int
	CapacityRebalance      *bool
	ServiceLinkedRoleARN   string
	TerminationPolicies    []string `xml:"TerminationPolicies>member"`
	// Terraform cannot change a group whose answer lacks these two.
	ZoneDistribution    string `xml:"AvailabilityZoneDistribution>CapacityDistributionStrategy"`
	CapacityReservation string `xml:"CapacityReservationSpecification>CapacityReservationPreference"`
}

// defaultCooldown is Auto Scaling's, in seconds.
const defaultCooldown = 300

// update replaces the settings that the input has.
func (s *keptSettings) update(in keptSettings) {
	s.CapacityRebalance = cmp.Or(in.CapacityRebalance, s.CapacityRebalance)
	s.DefaultCooldown = cmp.Or(in.DefaultCooldown, s.DefaultCooldown)
	s.DefaultInstanceWarmup = cmp.Or(in.DefaultInstanceWarmup, s.DefaultInstanceWarmup)
	if w := s.DefaultInstanceWarmup; w != nil && *w < 0 { // -1 removes it
		s.DefaultInstanceWarmup = nil
	}
	s.HealthCheckGracePeriod = cmp.Or(in.HealthCheckGracePeriod, s.HealthCheckGracePeriod)
	s.MaxInstanceLifetime = cmp.Or(in.MaxInstanceLifetime, s.MaxInstanceLifetime)
	s.HealthCheckType = cmp.Or(in.HealthCheckType, s.HealthCheckType)
	s.ServiceLinkedRoleARN = cmp.Or(in.ServiceLinkedRoleARN, s.ServiceLinkedRoleARN)
	if len(in.TerminationPolicies) > 0 {
		s.TerminationPolicies = slices.Clone(in.TerminationPolicies)
	}
}

// describeSettings describes the settings, with Auto Scaling's defaults for those never set.
func (s keptSettings) describeSettings(account string) xmlSettings {
	out := xmlSettings{
		DefaultCooldown: defaultCooldown, HealthCheckType: cmp.Or(s.HealthCheckType, "EC2"),
		CapacityRebalance: s.CapacityRebalance, DefaultInstanceWarmup: s.DefaultInstanceWarmup,
		TerminationPolicies: []string{"Default"},
		ZoneDistribution:    "balanced-best-effort", CapacityReservation: "default",
		ServiceLinkedRoleARN: cmp.Or(s.ServiceLinkedRoleARN, "arn:aws:iam::"+account+
			":role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"),
	}
	if s.DefaultCooldown != nil {
		out.DefaultCooldown = *s.DefaultCooldown
	}
	if s.HealthCheckGracePeriod != nil {
		out.HealthCheckGracePeriod = *s.HealthCheckGracePeriod
	}
	if len(s.TerminationPolicies) > 0 {
		out.TerminationPolicies = s.TerminationPolicies
	}
	if l := s.MaxInstanceLifetime; l != nil && *l > 0 {
		out.MaxInstanceLifetime = l
	}
	return out
}
