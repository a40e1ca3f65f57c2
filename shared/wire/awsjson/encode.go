package awsjson

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs/schemas"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"
)

// The SDK is made for clients: it writes inputs and reads outputs. Its outputs can write themselves
// too, but the JSON writer that they need is private and lent only to code that has a request
// written. So an answer is written as if it were the input of a request, and its body is taken out
// of the request. All that depends on this is in this file; TestEncode compares the result with the
// protocol.

var (
	protocol = awsjson.New11(schemas.AmazonEC2ContainerServiceV20141113)
	// disguise is any operation: the output brings its own schema.
	disguise = smithy.NewOperationSchema(schemas.ListTasks, schemas.ListTasksRequest, schemas.ListTasksResponse)
)

// EncodeOutput writes the output of an operation, a pointer to one of the SDK's types such as
// *ecs.ListTasksOutput, as the body of an answer: names in lower camel case, times in seconds, nil
// left out. Unlike the SDK it writes zero counts and empty lists where ECS does, because callers
// query them (`--query`) and waiters compare them. The error names the operation.
func EncodeOutput(op string, out any) ([]byte, error) {
	answer, ok := out.(smithy.Serializable)
	if !ok {
		return nil, fmt.Errorf("answering %s: encoding %T: it is no output of the ECS API", op, out)
	}
	req := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	if err := protocol.SerializeRequest(context.Background(), disguise, complete{answer}, req); err != nil {
		return nil, fmt.Errorf("answering %s: encoding %T: %w", op, out, err)
	}
	var body bytes.Buffer
	_, err := io.Copy(&body, req.GetStream()) // in one piece: an answer can have hundreds of kilobytes
	return body.Bytes(), err
}

// A complete is an output that writes itself through [zeros].
type complete struct{ smithy.Serializable }

// Serialize writes the output.
func (c complete) Serialize(s smithy.ShapeSerializer) {
	c.Serializable.Serialize(&zeros{ShapeSerializer: s})
}

// always has the members that ECS sends regardless of their value, by structure.
var always = map[string][]string{
	"Cluster":   {"registeredContainerInstancesCount", "runningTasksCount", "pendingTasksCount", "activeServicesCount"},
	"Container": {"networkBindings", "networkInterfaces"},
	"ContainerInstance": {
		"agentConnected", "runningTasksCount", "pendingTasksCount", "version", "attachments", "attributes",
		"registeredResources", "remainingResources", "tags",
	},
	"CapacityProvider":             {"tags"},
	"CapacityProviderStrategyItem": {"weight", "base"},
	"ContainerDefinition":          {"cpu"},
	"DeploymentAlarms":             {"enable", "rollback"},
	"DeploymentCircuitBreaker":     {"enable", "rollback"},
	"Deployment":                   {"desiredCount", "pendingCount", "runningCount", "failedTasks"},
	"ProtectedTask":                {"protectionEnabled"},
	"Resource":                     {"doubleValue", "longValue", "integerValue"},
	"Scale":                        {"value"},
	"Service": {"desiredCount", "runningCount", "pendingCount", "enableECSManagedTags",
		"enableExecuteCommand", "deployments", "events", "loadBalancers", "placementConstraints", "placementStrategy",
		"serviceRegistries"},
	"ServiceCurrentRevisionSummary":   {"requestedTaskCount", "runningTaskCount", "pendingTaskCount"},
	"ServiceDeploymentCircuitBreaker": {"failureCount", "threshold"},
	"ServiceRevisionSummary":          {"requestedTaskCount", "runningTaskCount", "pendingTaskCount"},
	"Task": {"version", "enableExecuteCommand", "attachments", "attributes", "containers",
		"tags"},
	"TaskSet":      {"computedDesiredCount", "pendingCount", "runningCount", "loadBalancers", "serviceRegistries"},
	"TaskOverride": {"containerOverrides", "inferenceAcceleratorOverrides"},
}

// A zeros adds to every structure the members in [always] that the SDK left out because they are
// zero or nil, and to the output itself the lists that it left out because they are nil.
type zeros struct {
	smithy.ShapeSerializer
	open []written
}

// A written is an unfinished structure with the members that it has so far.
type written struct {
	schema  *smithy.Schema
	members []string
}

// noteMember records that the structure has the member.
func (z *zeros) noteMember(member *smithy.Schema) {
	if n := len(z.open); n > 0 {
		z.open[n-1].members = append(z.open[n-1].members, member.MemberName())
	}
}

// WriteInt32, WriteInt64, WriteFloat64 and WriteBool record that the structure has the member.

func (z *zeros) WriteInt32(s *smithy.Schema, v int32) {
	z.noteMember(s)
	z.ShapeSerializer.WriteInt32(s, v)
}

func (z *zeros) WriteInt64(s *smithy.Schema, v int64) {
	z.noteMember(s)
	z.ShapeSerializer.WriteInt64(s, v)
}

func (z *zeros) WriteFloat64(s *smithy.Schema, v float64) {
	z.noteMember(s)
	z.ShapeSerializer.WriteFloat64(s, v)
}

func (z *zeros) WriteBool(s *smithy.Schema, v bool) {
	z.noteMember(s)
	z.ShapeSerializer.WriteBool(s, v)
}

// WriteList records that the structure has the list.
func (z *zeros) WriteList(s *smithy.Schema) { z.noteMember(s); z.ShapeSerializer.WriteList(s) }

// WriteStruct begins a structure.
func (z *zeros) WriteStruct(s *smithy.Schema) {
	z.open = append(z.open, written{schema: s})
	z.ShapeSerializer.WriteStruct(s)
}

// CloseStruct adds what is missing and ends the structure.
func (z *zeros) CloseStruct() {
	last := len(z.open) - 1
	w := z.open[last]
	z.open = z.open[:last]
	name := w.schema.TargetID().Name
	if name == "" {
		name = w.schema.ID().Name
	}
	for _, member := range always[name] {
		if s := w.schema.Member(member); s != nil && !slices.Contains(w.members, member) {
			z.writeZero(s)
		}
	}
	if last == 0 {
		z.writeEmptyLists(w)
	}
	z.ShapeSerializer.CloseStruct()
}

func (z *zeros) writeZero(s *smithy.Schema) {
	switch s.Type() {
	case smithy.ShapeTypeList:
		z.ShapeSerializer.WriteList(s)
		z.ShapeSerializer.CloseList()
	case smithy.ShapeTypeBoolean:
		z.ShapeSerializer.WriteBool(s, false)
	case smithy.ShapeTypeDouble:
		z.ShapeSerializer.WriteFloat64(s, 0)
	default:
		z.ShapeSerializer.WriteInt32(s, 0)
	}
}

func (z *zeros) writeEmptyLists(w written) {
	var missing []string
	for name, s := range w.schema.Members() {
		if s.Type() == smithy.ShapeTypeList && !slices.Contains(w.members, name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		z.ShapeSerializer.WriteList(w.schema.Member(name))
		z.ShapeSerializer.CloseList()
	}
}

// DecodeAnswer decodes an output that ECS wrote. Errors of the API must have been told apart
// before, by the HTTP status.
func DecodeAnswer(answer []byte, out smithy.Deserializable) error {
	resp := &smithyhttp.Response{Response: &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(answer)),
	}}
	if err := protocol.DeserializeResponse(context.Background(), disguise, nil, resp, out); err != nil {
		return fmt.Errorf("decoding an answer of ECS: %w", err)
	}
	return nil
}
