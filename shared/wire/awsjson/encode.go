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

// EncodeOutput writes the output of an operation, a pointer to one of the SDK's types such as
// *ecs.ListTasksOutput, as the body of an answer: names in lower camel case, times in seconds, nil
// left out. Unlike the SDK it writes zero counts and empty lists where ECS does, because callers
// query them (`--query`) and waiters compare them. The error names the operation.
//
// The SDK is made for clients: it writes inputs and reads outputs. Its outputs can write themselves
// too, but its JSON writer is private. [jsonWriter] is one for answers.
func EncodeOutput(op string, out any) ([]byte, error) {
	answer, ok := out.(smithy.Serializable)
	if !ok {
		return nil, fmt.Errorf("answering %s: encoding %T: it is no output of the ECS API", op, out)
	}
	w := writers.Get().(*jsonWriter)
	defer w.release()
	answer.Serialize(w)
	if w.err != nil {
		return nil, fmt.Errorf("answering %s: encoding %T: %w", op, out, w.err)
	}
	return w.Bytes(), nil
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

// completeStruct adds to the open structure the members in [always] that the SDK left out because
// they are zero or nil, and to the output itself the lists that it left out because they are nil.
func (w *jsonWriter) completeStruct() {
	last := len(w.open) - 1
	schema := w.open[last].schema
	name := schema.TargetID().Name
	if name == "" {
		name = schema.ID().Name
	}
	for _, member := range always[name] {
		if slices.Contains(w.open[last].members, member) {
			continue
		}
		if s := schema.Member(member); s != nil {
			writeZero(w, s)
		}
	}
	if last == 0 {
		writeEmptyLists(w, schema)
	}
}

func writeZero(w *jsonWriter, s *smithy.Schema) {
	switch s.Type() {
	case smithy.ShapeTypeList:
		w.WriteList(s)
		w.CloseList()
	case smithy.ShapeTypeBoolean:
		w.WriteBool(s, false)
	case smithy.ShapeTypeDouble:
		w.WriteFloat64(s, 0)
	default:
		w.WriteInt32(s, 0)
	}
}

func writeEmptyLists(w *jsonWriter, output *smithy.Schema) {
	var missing []string
	for name, s := range output.Members() {
		if s.Type() == smithy.ShapeTypeList && !slices.Contains(w.open[0].members, name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		w.WriteList(output.Member(name))
		w.CloseList()
	}
}

var (
	protocol = awsjson.New11(schemas.AmazonEC2ContainerServiceV20141113)
	// anyOperation names no operation: the output brings its own schema.
	anyOperation = smithy.NewOperationSchema(schemas.ListTasks, schemas.ListTasksRequest, schemas.ListTasksResponse)
)

// DecodeAnswer decodes an output that ECS wrote. Errors of the API must have been told apart
// before, by the HTTP status.
func DecodeAnswer(answer []byte, out smithy.Deserializable) error {
	resp := &smithyhttp.Response{Response: &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(answer)),
	}}
	if err := protocol.DeserializeResponse(context.Background(), anyOperation, nil, resp, out); err != nil {
		return fmt.Errorf("decoding an answer of ECS: %w", err)
	}
	return nil
}
