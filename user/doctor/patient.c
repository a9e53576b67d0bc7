// SPDX-License-Identifier: GPL-2.0
#include "doctor/patient.h"

#include <limits.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/small_file.h"
#include "lib/utf8.h"

/* Headers may be older than the kernel. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif

bool patient_has_capability(const struct patient *patient, unsigned int number)
{
	return patient->capabilities >> number & 1;
}

bool patient_has_perfmon(const struct patient *patient)
{
	return patient_has_capability(patient, CAP_PERFMON) ||
	       patient_has_capability(patient, CAP_SYS_ADMIN);
}

long patient_number(const struct patient *patient, const char *path, long otherwise)
{
	char text[32], *end;
	long number;

	small_file_read(patient->root, path, text, sizeof(text));
	number = strtol(text, &end, 10);
	return end == text ? otherwise : number;
}

bool patient_has_file(const struct patient *patient, const char *format, ...)
{
	char path[PATH_MAX], whole[PATH_MAX];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (length < 0 || length >= (int)sizeof(path))
		return false;
	length = snprintf(whole, sizeof(whole), "%s%s", patient->root, path);
	return length < (int)sizeof(whole) && !access(whole, F_OK);
}

/* A name may have line breaks, and whatever else a terminal obeys. */
static void clean_text(char *text)
{
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	utf8_sanitize(text);
}

void patient_report(const struct patient *patient, enum finding_status status, const char *remedy,
		    const char *format, ...)
{
	struct finding finding = {.check = patient->check, .status = status};
	va_list args;

	va_start(args, format);
	vsnprintf(finding.text, sizeof(finding.text), format, args);
	va_end(args);
	snprintf(finding.remedy, sizeof(finding.remedy), "%s", remedy);
	clean_text(finding.text);
	clean_text(finding.remedy);
	patient->fn(patient->arg, &finding);
}
