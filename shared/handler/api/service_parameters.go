package api

import (
	"berth/shared/cluster"
	"berth/shared/operation"
)

// listOrNil returns a list that the caller gave; an empty one as nil, as rows keep it.
func listOrNil[T any](given *[]T) []T {
	if given == nil || len(*given) == 0 {
		return nil
	}
	return *given
}

// applyParameters applies the parameters that start no deployment, where they are given. Load
// balancers, registries and providers are not among them.
func applyParameters(s *cluster.Service, p operation.ServiceParameters) {
	s.Breaker = valueOr(p.Breaker, s.Breaker)
	s.Alarms = valueOr(p.Alarms, s.Alarms)
	s.Early = valueOr(p.Early, s.Early)
	s.Grace = valueOr(p.Grace, s.Grace)
	s.ZoneRebalancing = valueOr(p.ZoneRebalancing, s.ZoneRebalancing)
	s.Options.ManagedTags = valueOr(p.ManagedTags, s.Options.ManagedTags)
	s.Options.ExecuteCommand = valueOr(p.ExecuteCommand, s.Options.ExecuteCommand)
}

// checkEarlySuccess refuses early success with fewer healthy tasks than minimumHealthyPercent
// demands anyway.
func checkEarlySuccess(s *cluster.Service) error {
	if s.Early.Enable && s.Early.Percent < s.MinHealthy {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"healthyPercent of earlySuccessCriteria is %d, but must be at least minimumHealthyPercent, which is %d.",
			s.Early.Percent, s.MinHealthy)
	}
	return nil
}

// checkDiscoverable refuses more tasks than a Cloud Map service can have instances (1,000; a quota
// that ECS repeats).
func checkDiscoverable(s *cluster.Service) error {
	if len(s.Deployment.Registries) > 0 && s.Desired > cluster.MaxDiscovered {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"desiredCount is %d, but a service with serviceRegistries has at most %d tasks.", s.Desired,
			cluster.MaxDiscovered)
	}
	return nil
}

// applyCounts applies the desired count and the percentages that were given, and checks
// the result. DAEMON services have no desired count, and their maximumPercent is 100 (S4).
func applyCounts(s *cluster.Service, desired, minHealthy, maxPercent *int) error {
	if s.Strategy == cluster.Daemon {
		if desired != nil {
			return cluster.Errorf(cluster.CodeInvalidParameter,
				cluster.DaemonDesiredCount)
		}
		if maxPercent != nil && *maxPercent > 100 {
			return cluster.Errorf(cluster.CodeInvalidParameter, cluster.DaemonMaximum)
		}
		if maxPercent != nil && *maxPercent < 100 {
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The daemon scheduling strategy does not support values for maximumPercent other than 100.")
		}
	}
	for name, v := range map[string]*int{"desiredCount": desired, "minimumHealthyPercent": minHealthy,
		"maximumPercent": maxPercent} {
		if v != nil && *v < 0 {
			return cluster.Errorf(cluster.CodeInvalidParameter, "%s is %d, but must not be negative.", name, *v)
		}
	}
	if desired != nil && *desired > cluster.MaxDesired {
		return cluster.Errorf(cluster.CodeInvalidParameter, "desiredCount is %d, but a service has at most %d tasks.",
			*desired, cluster.MaxDesired)
	}
	s.Desired = valueOr(desired, s.Desired)
	s.MinHealthy = valueOr(minHealthy, s.MinHealthy)
	s.MaxPercent = valueOr(maxPercent, s.MaxPercent)
	if s.MaxPercent < s.MinHealthy || s.MaxPercent == 0 {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"maximumPercent is %d, but must be above 0 and at least minimumHealthyPercent, which is %d.", s.MaxPercent,
			s.MinHealthy)
	}
	// Task sets are deployed from outside, so their percentages hold nothing back. A service that has
	// such percentages from before keeps them until a request changes one.
	if (minHealthy != nil || maxPercent != nil) && s.MinHealthy == 100 && s.MaxPercent == 100 && !s.HasTaskSets() {
		return cluster.Errorf(cluster.CodeInvalidParameter, // in ECS's words
			"Both maximumPercent and minimumHealthyPercent cannot be 100 as this will block deployments.")
	}
	return nil
}

// valueOr returns what was given, or otherwise.
func valueOr[T any](given *T, otherwise T) T {
	if given != nil {
		return *given
	}
	return otherwise
}
