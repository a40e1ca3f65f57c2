package cluster

import (
	"strconv"
	"time"
)

// Tags of capacity providers that set a part of [ManagedScaling] for which the ECS API has no
// parameter (C1, C3, C5, C8).
const (
	TagScaleInDatapoints     = "berth:scale-in-datapoints"
	TagScaleInPercent        = "berth:scale-in-percent"
	TagScaleInCooldown       = "berth:scale-in-cooldown"
	TagWarmupUntilRegistered = "berth:warmup-until-registered"
	TagReplaceUnregistered   = "berth:replace-unregistered"
	TagTargetTracking        = "berth:target-tracking"
	TagConsolidation         = "berth:consolidation"
	TagConsolidationPercent  = "berth:consolidation-percent"
	TagConsolidationWindow   = "berth:consolidation-window"
)

// ScalingTags are the tags that [ApplyScalingTag] knows.
var ScalingTags = []string{
	TagScaleInDatapoints, TagScaleInPercent, TagScaleInCooldown, TagWarmupUntilRegistered, TagReplaceUnregistered,
	TagTargetTracking,
	TagConsolidation, TagConsolidationPercent, TagConsolidationWindow,
}

// ApplyScalingTag sets what the tag names. An empty value resets it to the default. A value that
// the tag does not allow is an InvalidParameterException.
func ApplyScalingTag(s *ManagedScaling, key, value string) error {
	d, c := &DefaultScaling, &s.Consolidation
	switch key {
	case TagScaleInDatapoints:
		return tagNumber(key, value, 1440, d.LowDatapoints, &s.LowDatapoints)
	case TagScaleInPercent:
		return tagNumber(key, value, 100, d.MaxScaleInPercent, &s.MaxScaleInPercent)
	case TagConsolidationPercent:
		return tagNumber(key, value, 100, d.Consolidation.BudgetPercent, &c.BudgetPercent)
	case TagScaleInCooldown:
		return tagDuration(key, value, d.Cooldown, &s.Cooldown)
	case TagConsolidationWindow:
		return tagDuration(key, value, d.Consolidation.BudgetWindow, &c.BudgetWindow)
	case TagWarmupUntilRegistered:
		return tagSwitch(key, value, &s.UntilRegistered)
	case TagReplaceUnregistered:
		return tagSwitch(key, value, &s.ReplaceUnregistered)
	case TagTargetTracking:
		return tagSwitch(key, value, &s.TargetTracking)
	case TagConsolidation:
		return tagSwitch(key, value, &c.Enabled)
	}
	return Errorf(CodeInvalidParameter, "Tag %.128s is not known.", key)
}

func tagNumber(key, value string, most, otherwise int, to *int) error {
	*to = otherwise
	if value == "" {
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return Errorf(CodeInvalidParameter, "Tag %s is %.64q, expected a number between 1 and %d.", key, value, most)
	}
	*to = n
	return nil
}

func tagDuration(key, value string, otherwise time.Duration, to *time.Duration) error {
	*to = otherwise
	if value == "" {
		return nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > 24*time.Hour {
		return Errorf(CodeInvalidParameter, "Tag %s is %.64q, expected a time of at most 24h such as 15m.", key, value)
	}
	*to = d
	return nil
}

func tagSwitch(key, value string, to *bool) error {
	switch value {
	case "", "false":
		*to = false
	case "true":
		*to = true
	default:
		return Errorf(CodeInvalidParameter, "Tag %s is %.64q, expected true or false.", key, value)
	}
	return nil
}
