//go:build unix

package clients

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/tests/ministack"
)

// runSDKStory uses the Go SDK with its waiters and paginators.
func runSDKStory(t *testing.T, d *door) {
	ctx, name := t.Context(), aws.String("sdk")
	api := ecs.New(ecs.Options{
		BaseEndpoint: &d.endpoint, Region: ministack.Region,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: d.accessKey, SecretAccessKey: d.key}, nil
		}),
	})
	must(t)(api.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: name, ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("web"),
			Image: aws.String("nginx:1"),
			Cpu:   64, Memory: aws.Int32(64)}},
	}))
	must(t)(api.CreateService(ctx, &ecs.CreateServiceInput{ServiceName: name, TaskDefinition: name,
		DesiredCount: aws.Int32(2)}))
	services := &ecs.DescribeServicesInput{Services: []string{*name}}
	const most = 2 * time.Minute
	stable := ecs.NewServicesStableWaiter(api, func(o *ecs.ServicesStableWaiterOptions) { o.MinDelay = time.Second })
	if out, err := stable.WaitForOutput(ctx, services, most); err != nil || out.Services[0].RunningCount != 2 {
		t.Fatalf("ServicesStable: %+v, %v", out, err)
	}
	ran, err := api.RunTask(ctx, &ecs.RunTaskInput{TaskDefinition: name, Count: aws.Int32(2)})
	if err != nil || len(ran.Tasks) != 2 || len(ran.Failures) > 0 {
		t.Fatalf("RunTask: %+v, %v", ran, err)
	}
	tasks := &ecs.DescribeTasksInput{Tasks: []string{*ran.Tasks[0].TaskArn, *ran.Tasks[1].TaskArn}}
	running := ecs.NewTasksRunningWaiter(api, func(o *ecs.TasksRunningWaiterOptions) { o.MinDelay = time.Second })
	if err := running.Wait(ctx, tasks, most); err != nil {
		t.Fatalf("TasksRunning: %v", err)
	}
	for _, task := range tasks.Tasks {
		must(t)(api.StopTask(ctx, &ecs.StopTaskInput{Task: &task}))
	}
	stopped := ecs.NewTasksStoppedWaiter(api, func(o *ecs.TasksStoppedWaiterOptions) { o.MinDelay = time.Second })
	if out, err := stopped.WaitForOutput(ctx, tasks, most); err != nil || out.Tasks[0].StoppedAt == nil {
		t.Fatalf("TasksStopped: %+v, %v", out, err)
	}
	found := 0
	for pages := ecs.NewListTasksPaginator(api, &ecs.ListTasksInput{ServiceName: name,
		MaxResults: aws.Int32(1)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		found += len(page.TaskArns)
	}
	if found != 2 {
		t.Errorf("the pages of ListTasks have %d tasks, want 2", found)
	}
	must(t)(api.DeleteService(ctx, &ecs.DeleteServiceInput{Service: name, Force: aws.Bool(true)}))
	inactive := ecs.NewServicesInactiveWaiter(api,
		func(o *ecs.ServicesInactiveWaiterOptions) { o.MinDelay = time.Second })
	if err := inactive.Wait(ctx, services, most); err != nil {
		t.Fatalf("ServicesInactive: %v", err)
	}
}

// must returns a function that ends the test if a call has failed.
func must(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}
