package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"berth/tests/lambda"
	"berth/tests/ministack"
)

type configuration struct {
	CodeSha256  string
	Environment struct{ Variables map[string]string }
}

func (c *Cloud) configuration(ctx context.Context, folder string) (out configuration, err error) {
	name := c.Resources[logicalName(folder)+"Function"]
	if name == "" {
		return out, fmt.Errorf("template.yaml has no function %s", folder)
	}
	answer, err := caller{endpoint: c.Endpoint}.sendRequest(ctx, request{
		service: "lambda", method: http.MethodGet, path: "/2015-03-31/functions/" + name + "/configuration",
	})
	if err == nil {
		err = json.Unmarshal(answer, &out)
	}
	if err != nil {
		err = fmt.Errorf("reading the configuration of %s: %w", name, err)
	}
	return out, err
}

// CodeHash tells one version of a function's code from another.
func (c *Cloud) CodeHash(ctx context.Context, folder string) (string, error) {
	got, err := c.configuration(ctx, folder)
	return got.CodeSha256, err
}

// DeployedFunction is one of the deployed functions, by its folder's name, to be run apart from the emulator: with the
// environment that the template gives it, on the emulator's table and queues, as the account's root user.
func (c *Cloud) DeployedFunction(ctx context.Context, folder string) (lambda.Function, error) {
	got, err := c.configuration(ctx, folder)
	if err != nil {
		return lambda.Function{}, err
	}
	env := []string{
		"AWS_REGION=" + ministack.Region, "AWS_ACCESS_KEY_ID=" + rootUser.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY=" + rootUser.SecretAccessKey, "AWS_ENDPOINT_URL=" + c.Endpoint,
	}
	env = append(env, fleetEndpoints(c.SimulatedAWS)...)
	for k, v := range got.Environment.Variables {
		env = append(env, k+"="+v)
	}
	binary, err := filepath.Abs(filepath.Join(c.options.Code, folder))
	return lambda.Function{Name: folder, Binary: binary, Environment: env}, err
}

// simulatedServices are what the fleet stands in for, by the names that they are signed for and that variables have.
var simulatedServices = map[string]string{
	"ecs": "ECS", "elasticloadbalancing": "ELASTIC_LOAD_BALANCING_V2", "servicediscovery": "SERVICEDISCOVERY", "monitoring": "CLOUDWATCH",
	"autoscaling": "AUTO_SCALING", "ec2": "EC2",
}

// IsSimulated reports whether a service's calls, by the prefix of IAM's actions, go to the fleet.
func IsSimulated(service string) bool {
	return simulatedServices[service] != "" || service == "cloudwatch"
}

func fleetEndpoints(url string) (env []string) {
	for _, name := range simulatedServices {
		env = append(env, "AWS_ENDPOINT_URL_"+name+"="+url)
	}
	slices.Sort(env)
	return env
}

// InvokeSchedule has a function handle its schedule now, as the emulator's would: with its own role. An error of the function
// is in its answer.
func (c *Cloud) InvokeSchedule(ctx context.Context, folder, name string) (answer string, err error) {
	body, err := json.Marshal(map[string]string{"schedule": name})
	if err != nil {
		return "", err
	}
	out, err := caller{endpoint: c.Endpoint}.sendRequest(ctx, request{
		service: "lambda", method: http.MethodPost, path: "/2015-03-31/functions/" + c.Resources[logicalName(folder)+"Function"] + "/invocations",
		body: body, contentType: "application/json",
	})
	if err != nil {
		return "", fmt.Errorf("invoking %s: %w", folder, err)
	}
	return string(out), nil
}
