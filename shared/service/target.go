package service

import (
	"slices"
	"time"

	"berth/shared/cluster"
)

// registrationChanges are what has happened to registrations since the events last reported them.
type registrationChanges struct {
	targetGroups      []string       // in order of appearance; ECS reports no Cloud Map services
	registered, ended map[string]int // by ARN
	refused           map[string]string
	draining          int // targets that get no new connections any more
	reported          []*cluster.Target
}

// changesOf collects what events have to report. Registrations that were made wait until none is
// outstanding any more, so that one event reports all of them.
func changesOf(targets []*cluster.Target, now time.Time) registrationChanges {
	outstanding := slices.ContainsFunc(targets, (*cluster.Target).HasOpenRegistration)
	c := registrationChanges{registered: map[string]int{}, ended: map[string]int{}, refused: map[string]string{}}
	for _, t := range targets {
		reports := false
		for _, r := range t.Registrations {
			if !r.Registry && !slices.Contains(c.targetGroups, r.ARN) {
				c.targetGroups = append(c.targetGroups, r.ARN)
			}
			switch {
			case r.State == cluster.RegistrationFailed:
				c.refused[r.ARN] = r.Reason
			case r.State == cluster.Registered && !t.RegistrationEmitted && !outstanding:
				c.registered[r.ARN]++
				reports = true
			case r.State == cluster.Deregistered && !t.DrainEmitted:
				c.ended[r.ARN]++
				reports = true
				if r.DrainedAt.After(now) {
					c.draining++
				}
			}
		}
		if reports {
			c.reported = append(c.reported, t)
		}
	}
	return c
}

// reportTargets reports what has happened to registrations, target group by target group.
func reportTargets(service string, c registrationChanges) (d decision) {
	add := func(key, message string) {
		d.events = append(d.events, keyedEvent{key, Event{Message: message}})
	}
	for _, arn := range c.targetGroups {
		if n := c.registered[arn]; n > 0 {
			add("", TargetsRegisteredMessage(service, n, arn))
		}
		if n := c.ended[arn]; n > 0 {
			add("", TargetsDeregisteredMessage(service, n, arn))
		}
		if why := c.refused[arn]; why != "" {
			add("register/"+arn, RegistrationFailedMessage(service, arn, why))
		}
	}
	if c.draining > 0 {
		add("", ConnectionsDrainingMessage(service, c.draining))
	}
	return d
}
