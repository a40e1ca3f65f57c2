package cluster

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// ContainerSize is what one container of a task definition asks for.
type ContainerSize struct {
	CPU         int64 `json:"c,omitempty"` // ECS CPU units
	Memory      int64 `json:"m,omitempty"` // MiB, hard limit
	Reservation int64 `json:"r,omitempty"` // MiB, soft limit
}

// ReservedMemory returns the memory that ECS reserves for the container: the reservation, or the
// hard limit if there is none (ECS API reference, ContainerDefinition.memoryReservation).
func (s ContainerSize) ReservedMemory() int64 {
	if s.Reservation > 0 {
		return s.Reservation
	}
	return s.Memory
}

// TaskNeeds returns what one task of the definition needs with its overrides. If the task has a
// size of its own, that counts, and its containers' overrides do not. The error is
// InvalidParameterException.
func TaskNeeds(def *TaskDefinition, o *Overrides) (Resources, error) {
	n := def.Needs
	if o == nil {
		return n, nil
	}
	for _, c := range o.Containers {
		if err := overrideContainer(def, c, &n); err != nil {
			return Resources{}, err
		}
	}
	if o.CPU != "" {
		units, err := TaskCPU(o.CPU)
		if err != nil {
			return Resources{}, err
		}
		n.CPU = units * CPUUnit
	}
	if o.Memory != "" {
		mib, err := TaskMemory(o.Memory)
		if err != nil {
			return Resources{}, err
		}
		n.Memory = mib
	}
	return n, nil
}

func overrideContainer(def *TaskDefinition, c ContainerOverride, n *Resources) error {
	at := slices.Index(def.Containers, c.Name)
	if at < 0 {
		return Errorf(CodeInvalidParameter,
			"Override for container named %.255s is not a container in the TaskDefinition.", c.Name)
	}
	if valueOrZero(c.CPU) < 0 || valueOrZero(c.Memory) < 0 || valueOrZero(c.Reservation) < 0 {
		return Errorf(CodeInvalidParameter, "Override for container named %.255s must not be negative.", c.Name)
	}
	if at >= len(def.Sizes) {
		return nil // the definition stores no container sizes if only the task's own counts
	}
	was := def.Sizes[at]
	is := was
	if c.CPU != nil {
		is.CPU = int64(*c.CPU)
	}
	if c.Memory != nil {
		is.Memory = int64(*c.Memory)
	}
	if c.Reservation != nil {
		is.Reservation = int64(*c.Reservation)
	}
	if !def.OwnCPU {
		n.CPU = max(0, n.CPU+(is.CPU-was.CPU)*CPUUnit)
	}
	if !def.OwnMemory {
		n.Memory = max(0, n.Memory+is.ReservedMemory()-was.ReservedMemory())
	}
	return nil
}

func valueOrZero(p *int32) int32 {
	if p == nil {
		return 0
	}
	return *p
}

// TaskCPU parses a task's own CPU, "1024" or "1 vCPU", in ECS CPU units.
func TaskCPU(s string) (int64, error) {
	return parseTaskSize(s, "vcpu", "cpu")
}

// TaskMemory parses a task's own memory, "2048" or "2 GB", in MiB.
func TaskMemory(s string) (int64, error) {
	return parseTaskSize(s, "gb", "memory")
}

func parseTaskSize(s, unit, member string) (int64, error) {
	number, scaled := strings.CutSuffix(strings.ToLower(strings.TrimSpace(s)), unit)
	number = strings.TrimSpace(number)
	n, err := strconv.ParseFloat(number, 64)
	if scaled {
		n *= 1024
	}
	plain := strings.Trim(number, "0123456789.") == "" // no exponent, sign or hexadecimal digits
	if err != nil || !plain || !(n >= 1 && n <= math.MaxInt32) || n != math.Trunc(n) {
		return 0, Errorf(CodeInvalidParameter, "Invalid '%s' setting for task: %.40q.", member, s)
	}
	return int64(n), nil
}
