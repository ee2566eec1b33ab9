package main

import (
	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/controller.v1/pytorch"
	ctrl "sigs.k8s.io/controller-runtime"
)

// runTraining runs the Training Operator's controller of PyTorchJobs.
func runTraining() {
	config.Config.PyTorchInitContainerTemplateFile = *initContainers
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault
	manager := newManager(ctrl.Options{}, kubeflow.AddToScheme)
	reconciler := pytorch.NewReconciler(manager, common.GenNonGangSchedulerSetupFunc())
	must(reconciler.SetupWithManager(manager, 5))
	must(manager.Start(ctrl.SetupSignalHandler()))
}
