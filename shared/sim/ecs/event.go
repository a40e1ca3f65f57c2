package ecs

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/shared/sim/kernel"
)

// emitTask emits the state change event of a task. It is emitted for every change of the row that
// ECS shows, from PENDING (version 1) on. Its detail, shortened:
//
//	{
//	  "clusterArn": "arn:aws:ecs:eu-central-1:123456789012:cluster/prod",
//	  "containerInstanceArn": "arn:aws:ecs:eu-central-1:123456789012:container-instance/prod/2d32...",
//	  "containers": [{"name": "app", "lastStatus": "RUNNING", "networkBindings": []}],
//	  "desiredStatus": "RUNNING", "lastStatus": "RUNNING", "startedBy": "berth/3f9ab2c61d07/2r-0",
//	  "startedAt": "2026-11-21T09:00:01.942Z", "version": 2, "updatedAt": "2026-11-21T09:00:01.942Z"
//	}
func (e *tables) emitTask(t *task, now time.Time) {
	d := t.describe(e.kernel.Account)
	d.HealthStatus = ""
	for n := range d.Containers {
		d.Containers[n].HealthStatus = ""
	}
	e.emitChange("ECS Task State Change", *d.TaskArn, t.Version, now, appendAPIValue(nil, reflect.ValueOf(d)))
}

// emitInstance emits the state change event of an instance. The event has the cluster's ARN, which
// the description of an instance has not.
func (e *tables) emitInstance(i *instance, now time.Time) {
	detail := appendAPIValue(nil, reflect.ValueOf(i.describe()))
	detail = append(detail[:len(detail)-1], `,"clusterArn":`...)
	detail = append(kernel.AppendJSONString(detail, *i.in.info.ClusterArn), '}')
	e.emitChange("ECS Container Instance State Change", i.arn, i.Version, now, detail)
}

// emitChange adds the time of the change to the detail of an event and queues it.
func (e *tables) emitChange(detailType, arn string, version int64, now time.Time, detail []byte) {
	detail = kernel.AppendJSONString(append(detail[:len(detail)-1], `,"updatedAt":`...), now.Format(kernel.EventTime))
	e.kernel.EmitEvent(kernel.Event{Source: e.options.EventSource, DetailType: detailType, ARN: arn, Version: version,
		At: now}, append(detail, '}'))
}

// appendAPIValue appends a value of the ECS API as events have it: names in lower camel case, times
// as text, absent members left out. Example: types.Task{Cpu: "256", StoppedAt: nil} becomes
// {"cpu":"256", ...} without stoppedAt. It replaces encoding/json because a simulation spends much
// of its time here.
func appendAPIValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		return appendAPIValue(b, v.Elem())
	case reflect.String:
		return kernel.AppendJSONString(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10)
	case reflect.Float64:
		return strconv.AppendFloat(b, v.Float(), 'g', -1, 64)
	case reflect.Slice:
		b = append(b, '[')
		for k := range v.Len() {
			if k > 0 {
				b = append(b, ',')
			}
			b = appendAPIValue(b, v.Index(k))
		}
		return append(b, ']')
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return kernel.AppendJSONString(b, v.Interface().(time.Time).UTC().Format(kernel.EventTime))
		}
		return appendAPIStruct(b, v)
	}
	return append(b, "null"...) // no field of a task or an instance is of another kind
}

// appendAPIStruct writes the members in the order of the SDK's struct, which is alphabetical.
// Readers go by name.
func appendAPIStruct(b []byte, v reflect.Value) []byte {
	b = append(b, '{')
	first := true
	for _, p := range cachedFieldPlans(v.Type()) {
		field := v.Field(p.index)
		if p.omitZero && field.IsZero() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(b, p.key...), ':')
		b = appendAPIValue(b, field)
	}
	return append(b, '}')
}

// fieldPlan is how one field of a struct is written.
type fieldPlan struct {
	index    int
	key      string // quoted
	omitZero bool
}

// plans caches the fields of each type.
var plans sync.Map // of []fieldPlan by reflect.Type

// cachedFieldPlans plans a type once. Two goroutines may do so at the same time, with the same
// result.
func cachedFieldPlans(t reflect.Type) []fieldPlan {
	if p, ok := plans.Load(t); ok {
		return p.([]fieldPlan)
	}
	p := planFields(t)
	plans.Store(t, p)
	return p
}

// planFields keeps false and 0, which events have too: agentConnected and pendingTasksCount matter
// most when they are zero.
func planFields(t reflect.Type) (plan []fieldPlan) {
	for k := range t.NumField() {
		field := t.Field(k)
		if !field.IsExported() {
			continue
		}
		omit := true
		switch field.Type.Kind() {
		case reflect.Bool, reflect.Int32:
			omit = false
		}
		name := strings.ToLower(field.Name[:1]) + field.Name[1:]
		plan = append(plan, fieldPlan{index: k, key: strconv.Quote(name), omitZero: omit})
	}
	return plan
}

// instanceChanged increments the instance's version, and emits the event. Every change of an
// instance or of what is free on it ends here.
func (e *tables) instanceChanged(i *instance, now time.Time) {
	i.Version++
	i.view = nil
	e.kernel.SaveRow(i)
	e.emitInstance(i, now)
}
