package operation

import (
	"time"

	"berth/shared/cluster"
)

// UpdateCapacityProvider changes a capacity provider. What is nil stays.
type UpdateCapacityProvider struct {
	Name                 string
	Protection, Draining *bool
	Scaling              ScalingChange
}

// ScalingChange has the parts of managed scaling that a caller gave; nil for the rest.
type ScalingChange struct {
	Enabled                  *bool
	Target, MinStep, MaxStep *int
	Warmup                   *time.Duration
}

// ApplyTo returns managed scaling after the change. Values outside the ECS API's bounds are
// InvalidParameterExceptions: a target of 1 to 100 %, steps of 1 to 10,000 instances, a warm-up of
// up to 10,000 s.
func (c ScalingChange) ApplyTo(s cluster.ManagedScaling) (cluster.ManagedScaling, error) {
	for _, f := range []struct {
		name        string
		given       *int
		to          *int
		least, most int
	}{
		{"targetCapacity", c.Target, &s.Target, 1, 100},
		{"minimumScalingStepSize", c.MinStep, &s.MinStep, 1, 10000},
		{"maximumScalingStepSize", c.MaxStep, &s.MaxStep, 1, 10000},
	} {
		if f.given == nil {
			continue
		}
		if *f.given < f.least || *f.given > f.most {
			return s, cluster.Errorf(cluster.CodeInvalidParameter, "%s is %d, but must be between %d and %d.", f.name,
				*f.given, f.least, f.most)
		}
		*f.to = *f.given
	}
	if c.Enabled != nil {
		s.Enabled = *c.Enabled
	}
	if c.Warmup != nil {
		if *c.Warmup < 0 || *c.Warmup > 10000*time.Second {
			return s, cluster.Errorf(cluster.CodeInvalidParameter,
				"instanceWarmupPeriod is %d, but must be between 0 and 10000.", int(c.Warmup.Seconds()))
		}
		s.Warmup = *c.Warmup
	}
	if s.MinStep > s.MaxStep {
		return s, cluster.Errorf(cluster.CodeInvalidParameter,
			"The minimum or maximum scaling step size value is invalid. Specify a minimum scaling step size value "+
				"that is less than or equal to the maximum scaling step size value and try again.")
	}
	return s, nil
}

// ClusterAttachments describes a cluster's capacity providers: which are attached and how they are
// used, and the rows of those that still exist, in the same order.
type ClusterAttachments struct {
	Attached cluster.ClusterProviders
	Rows     []*cluster.CapacityProvider
}
