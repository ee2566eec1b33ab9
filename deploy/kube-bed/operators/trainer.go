package main

import (
	"context"

	configapi "github.com/kubeflow/trainer/v2/pkg/apis/config/v1alpha1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/controller"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
	"github.com/kubeflow/trainer/v2/pkg/webhooks"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlpkg "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	plugins "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// runTrainer runs Kubeflow Trainer: its controllers and its webhooks.
func runTrainer() {
	options := ctrl.Options{WebhookServer: webhook.NewServer(
		webhook.Options{Host: host, Port: *webhookPort, CertDir: *certDir},
	)}
	manager := newManager(options, trainer.AddToScheme, jobset.AddToScheme,
		plugins.AddToScheme, volcano.AddToScheme)
	must(manager.AddReadyzCheck("webhooks", manager.GetWebhookServer().StartedChecker()))
	ctx := ctrl.SetupSignalHandler()
	runtimes, err := core.New(context.Background(), manager.GetClient(), manager.GetFieldIndexer(),
		&configapi.Configuration{})
	must(err)
	_, err = controller.SetupControllers(manager, runtimes, ctrlpkg.Options{})
	must(err)
	_, err = webhooks.Setup(manager, runtimes)
	must(err)
	must(manager.Start(ctx))
}
