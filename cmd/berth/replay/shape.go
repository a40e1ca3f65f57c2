package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
)

// shape is what a task definition says about a task. Tasks of one shape share a definition.
type shape struct {
	cpu      int64 // thousandths of a vCPU
	memory   int64 // MiB
	gpus     int
	gpuMilli int
}

// shapeOfTask returns the shape of a task. GPU models are no part of it: they are a constraint of
// the RunTask call.
func shapeOfTask(p trace.Task) shape {
	return shape{cpu: p.CPUMilli, memory: p.MemoryMiB, gpus: p.GPUs, gpuMilli: p.GPUMilli}
}

// distinctShapes returns each shape once, in order of the first task that has it.
func distinctShapes(tasks []trace.Task) (out []shape) {
	seen := map[shape]bool{}
	for _, t := range tasks {
		if s := shapeOfTask(t); !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// definitionFamily is the name of the shape's task definition.
func (s shape) definitionFamily() string {
	return fmt.Sprintf("trace-%d-%d-%d-%d", s.cpu, s.memory, s.gpus, s.gpuMilli)
}

// isGPUShare reports whether the task takes only a part of one GPU.
func (s shape) isGPUShare() bool { return s.gpus == 1 && s.gpuMilli < 1000 && s.gpuMilli > 0 }

// registerShape registers the shape's task definition through the ECS API, like any user. ECS has
// only whole CPU units and whole GPUs; tags of Berth's own say the rest.
func registerShape(ctx context.Context, i *installation.Installation, s shape) error {
	container := map[string]any{
		"name": "main", "image": "trace", "essential": true, "memory": max(6, s.memory), "cpu": s.cpu * 1024 / 1000,
	}
	tags := []map[string]string{{"key": "berth:cpu-milli", "value": strconv.FormatInt(s.cpu, 10)}}
	switch {
	case s.isGPUShare():
		tags = append(tags, map[string]string{"key": "berth:gpu-milli", "value": strconv.Itoa(s.gpuMilli)})
	case s.gpus > 0:
		container["resourceRequirements"] = []map[string]string{{"type": "GPU", "value": strconv.Itoa(s.gpus)}}
	}
	body, err := json.Marshal(map[string]any{
		"family": s.definitionFamily(), "tags": tags, "containerDefinitions": []any{container},
	})
	if err != nil {
		return err
	}
	if status, answer := i.AWS.ECS.Endpoint().ServeOperation(ctx, "RegisterTaskDefinition",
		body); status != http.StatusOK {
		return fmt.Errorf("registering %s: %s", s.definitionFamily(), answer)
	}
	return nil
}
