package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// CodeHash returns the hash of a function's deployed code.
func (c *Cloud) CodeHash(ctx context.Context, folder string) (string, error) {
	got, err := c.configuration(ctx, folder)
	return got.CodeSha256, err
}

// DeployedFunction returns one of the deployed functions, by its folder's name, to be run outside
// the emulator: with the environment that the template gives it, on the emulator's table and
// queues, as the account's root user.
func (c *Cloud) DeployedFunction(ctx context.Context, folder string) (lambda.Function, error) {
	got, err := c.configuration(ctx, folder)
	if err != nil {
		return lambda.Function{}, err
	}
	env := []string{
		"AWS_REGION=" + ministack.Region, "AWS_ACCESS_KEY_ID=" + rootUser.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY=" + rootUser.SecretAccessKey, "AWS_ENDPOINT_URL=" + c.Endpoint,
	}
	env = append(env, FleetEndpoints(c.SimulatedAWS)...)
	for k, v := range got.Environment.Variables {
		env = append(env, k+"="+v)
	}
	binary, err := filepath.Abs(filepath.Join(c.options.Code, folder))
	return lambda.Function{Name: folder, Binary: binary, Environment: env}, err
}

// simulatedServices are the services that the simulated AWS serves, by the names in signatures and
// in variables.
var simulatedServices = map[string][]string{
	"ecs": {"ECS"}, "elasticloadbalancing": {"ELASTIC_LOAD_BALANCING", "ELASTIC_LOAD_BALANCING_V2"},
	"servicediscovery": {"SERVICEDISCOVERY"}, "monitoring": {"CLOUDWATCH"}, "autoscaling": {"AUTO_SCALING"},
	"ec2": {"EC2"}, "iam": {"IAM"}, "ssm": {"SSM"}, "servicequotas": {"SERVICE_QUOTAS"},
}

// IsSimulated reports whether the simulated AWS takes a service's calls. The service is the prefix
// of IAM's actions.
func IsSimulated(service string) bool {
	return simulatedServices[service] != nil || service == "cloudwatch"
}

// FleetEndpoints returns the variables, as NAME=value, by which functions find a simulated AWS.
func FleetEndpoints(url string) (env []string) {
	for _, names := range simulatedServices {
		for _, name := range names {
			env = append(env, "AWS_ENDPOINT_URL_"+name+"="+url)
		}
	}
	slices.Sort(env)
	return env
}

// InvokeSchedule lets a function handle its schedule now, as the emulator's schedule would: with
// the function's role. An error of the function is in its answer.
func (c *Cloud) InvokeSchedule(ctx context.Context, folder, name string) (answer string, err error) {
	body, err := json.Marshal(map[string]string{"schedule": name})
	if err != nil {
		return "", err
	}
	return c.Invoke(ctx, folder, body)
}

// Invoke has a function handle an event, with its own role. An error of the function is in its
// answer.
func (c *Cloud) Invoke(ctx context.Context, folder string, body []byte) (answer string, err error) {
	out, err := caller{endpoint: c.Endpoint}.sendRequest(ctx, request{
		service: "lambda", method: http.MethodPost,
		path: "/2015-03-31/functions/" + c.Resources[logicalName(folder)+"Function"] + "/invocations",
		body: body, contentType: "application/json",
	})
	if err != nil {
		return "", fmt.Errorf("invoking %s: %w", folder, err)
	}
	return string(out), nil
}

// FunctionLog returns what a function has logged since a time, as CloudWatch Logs has it: the
// emulator returns no more than the first 10,000 lines. The zero time stands for the beginning.
func (c *Cloud) FunctionLog(ctx context.Context, folder string, since time.Time) (string, error) {
	group := c.Resources[logicalName(folder)+"Logs"]
	var log strings.Builder
	for token := ""; ; {
		in := map[string]any{"logGroupName": group}
		if !since.IsZero() {
			in["startTime"] = since.UnixMilli()
		}
		if token != "" {
			in["nextToken"] = token
		}
		body, err := json.Marshal(in)
		if err != nil {
			return "", err
		}
		answer, err := caller{endpoint: c.Endpoint}.sendRequest(ctx, request{
			service: "logs", method: http.MethodPost, path: "/", body: body,
			contentType: "application/x-amz-json-1.1", target: "Logs_20140328.FilterLogEvents",
		})
		var page struct {
			Events    []struct{ Message string }
			NextToken string
		}
		if err == nil {
			err = json.Unmarshal(answer, &page)
		}
		if err != nil {
			return "", fmt.Errorf("reading the log %s: %w", group, err)
		}
		for _, e := range page.Events {
			log.WriteString(e.Message + "\n")
		}
		if token = page.NextToken; token == "" {
			return log.String(), nil
		}
	}
}

// Move puts a text about one account and Region into the emulator's, with its ARNs and zones,
// because the functions refuse events of any other account.
func Move(text, account, region string) string {
	return strings.NewReplacer(account, ministack.Account, region, ministack.Region).Replace(text)
}

// EventOrigin returns the account and the Region that an event names: one of EventBridge, or one of
// SQS or DynamoDB by the ARN of its source. Other events name none.
func EventOrigin(event []byte) (account, region string) {
	var in struct {
		Account, Region string
		Records         []struct{ EventSourceARN string }
	}
	if err := json.Unmarshal(event, &in); err != nil {
		return "", ""
	}
	if len(in.Records) > 0 {
		if parts := strings.Split(in.Records[0].EventSourceARN, ":"); len(parts) > 5 {
			return parts[4], parts[3]
		}
	}
	return in.Account, in.Region
}
