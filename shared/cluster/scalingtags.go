package cluster

import (
	"strconv"
	"time"

	"berth/shared/choice"
)

// Tags of capacity providers that set a part of [ManagedScaling] for which the ECS API has no
// parameter (C1, C3, C5, C8).
const (
	TagScaleInDatapoints     = "berth:scale-in-datapoints"
	TagScaleInPercent        = "berth:scale-in-percent"
	TagScaleInCooldown       = "berth:scale-in-cooldown"
	TagWarmupUntilRegistered = "berth:warmup-until-registered"
	TagReplaceUnregistered   = "berth:replace-unregistered"
	TagScaleOut              = "berth:scale-out"
	TagTargetTracking        = "berth:target-tracking"
	TagConsolidation         = "berth:consolidation"
	TagConsolidationPercent  = "berth:consolidation-percent"
	TagConsolidationWindow   = "berth:consolidation-window"
)

// Values of [TagScaleOut]: scale out at the minute's look and when an alarm fires, as ECS does, or
// as soon as tasks wait.
const (
	scaleOutAlarm     = "alarm"
	scaleOutImmediate = "immediate"
)

// With [ManagedScaling].Immediate, waiting tasks are counted once no further one has begun to wait
// for ScaleOutIdle, or ScaleOutMax after the first: tasks that begin together then make one
// request. These are the defaults of Karpenter's BATCH_IDLE_DURATION and BATCH_MAX_DURATION.
const (
	ScaleOutIdle = time.Second
	ScaleOutMax  = 10 * time.Second
)

// ScalingTags are the tags that [ApplyScalingTag] knows.
var ScalingTags = []string{
	TagScaleInDatapoints, TagScaleInPercent, TagScaleInCooldown, TagWarmupUntilRegistered, TagReplaceUnregistered,
	TagScaleOut, TagTargetTracking,
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
	case TagScaleOut:
		return tagScaleOut(value, &s.Immediate)
	case TagTargetTracking:
		return tagSwitch(key, value, &s.TargetTracking)
	case TagConsolidation:
		return tagSwitch(key, value, &c.Enabled)
	}
	return Errorf(CodeInvalidParameter, "Tag %.128s is not known, %s", key, choice.Expected(key, ScalingTags))
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
		return Errorf(CodeInvalidParameter, "Tag %s is %.64q, %s", key, value,
			choice.Expected(value, []string{"true", "false"}))
	}
	return nil
}

func tagScaleOut(value string, immediate *bool) error {
	switch value {
	case "", scaleOutAlarm:
		*immediate = false
	case scaleOutImmediate:
		*immediate = true
	default:
		return Errorf(CodeInvalidParameter, "Tag %s is %.64q, %s", TagScaleOut, value,
			choice.Expected(value, []string{scaleOutAlarm, scaleOutImmediate}))
	}
	return nil
}
