"""The doctor's score over public incidents: python -m tests.doctor_score"""
