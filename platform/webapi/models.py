"""Stored answers to requests with an Idempotency-Key."""

from __future__ import annotations

from django.db import models


class IdempotentAnswer(models.Model):
    """The answer to `key` of `principal_id`, kept for at least 24 hours.

    `fingerprint` is the SHA-256 of method, path and body. The same key with another body is
    refused. The answer is written in the transaction of the change that it describes.
    """

    id = models.BigAutoField(primary_key=True)
    principal_id = models.UUIDField()
    key = models.CharField(max_length=255)
    fingerprint = models.BinaryField(max_length=32)
    status = models.PositiveSmallIntegerField()
    body = models.JSONField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["principal_id", "key"], name="idempotency_key_answered_once"
            ),
        ]
        indexes = [models.Index(fields=["created_at"], name="idempotent_answer_by_age")]

    def __str__(self) -> str:
        return f"answer to {self.key}"
