package main

import (
	"testing"

	"berth/cmd/berth/client"
	"berth/cmd/berth/problem"
)

// Printed commands reach the Berth that was asked, and need no more than the environment lacks.
func TestCallersOf(t *testing.T) {
	const local, away = "http://127.0.0.1:9", "https://x.lambda-url.eu-west-1.on.aws/"
	flag := " --endpoint-url " + local
	for name, c := range map[string]struct {
		of       client.Endpoint
		all, ecs string // AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_ECS
		stack    string // BERTH_STACK
		want     problem.Callers
	}{
		"Default": {want: problem.Callers{API: " --endpoint-url " + client.DefaultEndpoint,
			Others: " --endpoint-url " + client.DefaultEndpoint}},
		"Environment": {all: local, want: problem.Callers{}},
		"OnlyECS":     {ecs: local, want: problem.Callers{Others: flag}},
		"Flag": {of: client.Endpoint{Endpoint: local},
			want: problem.Callers{Berth: " --endpoint " + local, API: flag, Others: flag}},
		"FlagBesideAnother": {of: client.Endpoint{Endpoint: local}, all: "http://127.0.0.1:8",
			want: problem.Callers{Berth: " --endpoint " + local, API: flag, Others: flag}},
		"Stack": {of: client.Endpoint{Stack: "prod", Profile: "ops", Region: "eu-west-1"}, want: problem.Callers{
			Berth:  " --stack prod --profile ops --region eu-west-1",
			Proxy:  "berth proxy --stack prod --profile ops --region eu-west-1 --",
			Others: " --profile ops --region eu-west-1"}},
		"StackOfTheEnvironment": {stack: "prod", want: problem.Callers{Proxy: "berth proxy --"}},
		"FunctionURL": {of: client.Endpoint{Endpoint: away}, want: problem.Callers{Berth: " --endpoint " + away,
			Proxy: "berth proxy --endpoint " + away + " --"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_ENDPOINT_URL", c.all)
			t.Setenv("AWS_ENDPOINT_URL_ECS", c.ecs)
			t.Setenv("BERTH_STACK", c.stack)
			if got := callersOf(c.of); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
